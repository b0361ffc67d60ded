"""Make the mails of a week from the store, and let them wait in the registry to be sent."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date

from agent.wire.units import DAY_US
from analyzer.capacity.gate.decided import Decided
from analyzer.interfaces.mail.compose import compose
from analyzer.interfaces.mail.content import Content
from analyzer.interfaces.mail.editions import Edition, edition_message
from analyzer.interfaces.mail.errors import MailError
from analyzer.interfaces.mail.joined import Joined
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.interfaces.mail.team_week import of_team, team_facts
from analyzer.interfaces.mail.unsubscribe import stop_token
from analyzer.interfaces.mail.usual import Usual
from analyzer.ledger.coverage import known_hours
from analyzer.ledger.running import like_before
from analyzer.period import Calendar, Period, local
from analyzer.prices.price_book import price_book
from analyzer.reports.reader import Reader
from collector.registry import Mails, Queued, Subscription

CATCH_UP_US = 14 * DAY_US  # a week that ended longer ago is not mailed any more: it is on the page
SETTLED = ("closed", "final")


@dataclass(slots=True)
class MadeMails:
    """What was made: how many mails, and of whom not, with the reason."""

    queued: int = 0
    left_out: list[str] = field(default_factory=list)


def contents(
    reader: Reader, period: Period, teams: set[str | None], asked: Sequence[Decided] = ()
) -> dict[str | None, Content]:
    """Return what the mails say, by team (None: the fleet); `asked` are the period's capacity requests."""
    report = reader.week(period)
    price = _oldest_price(reader, period)
    before = like_before(reader.session, period, reader.calendar)
    facts = team_facts(reader.session, before, period) if teams - {None} else None
    joined = Joined.read(reader, period, asked)
    usual = Usual.read(reader.session, reader.calendar, period)
    site_url = reader.settings.site_url or None
    found: dict[str | None, Content] = {}
    for team in teams:
        own = report if team is None or facts is None else of_team(report, team, facts)
        more = joined.extras(team)
        found[team] = compose(own, team=team, oldest_price=price, extras=more, usual=usual.of(team), site_url=site_url)
    return found


def _oldest_price(reader: Reader, period: Period) -> date | None:
    """Return when somebody last looked at the price that was longest not looked at, of those in effect at the end."""
    dates = [row.as_of for row in price_book(reader.settings).rows if row.covers(period.end - 1)]
    return min((each for each in dates if each is not None), default=None)


def check_mailable(reader: Reader, period: Period, now_us: int) -> None:
    """Refuse what should not be mailed: no week, one that may still change, or one that is long gone.

    Raises:
        MailError: the sentence says which, and the way out.
    """
    if "-W" not in period.label:
        raise MailError(f"{period.label} is no week: a mail is of one, such as 2026-W46")
    if now_us - period.end > CATCH_UP_US:
        ended = local(period.end - 1, period.timezone).date()
        raise MailError(
            f"{period.label} ended on {ended}, more than {CATCH_UP_US // DAY_US} days ago, and is not mailed any more; "
            "is the ledger up to date? --dry-run writes the mail to a file"
        )
    status = known_hours(reader.session, period).status
    if status not in SETTLED:
        raise MailError(
            f"{period.label} is {status or 'not analysed'}, and its figures may still move: weeks close 48 h after "
            "their end, and are mailed then; --dry-run writes the mail to a file now"
        )


def make_mails(
    reader: Reader,
    period: Period,
    every: list[Edition],
    settings: MailSettings,
    mails: Mails,
    clock: Callable[[], int],
    asked: Sequence[Decided] = (),
) -> MadeMails:
    """Make what this period still lacks and let it wait: nothing twice, nobody who stopped it, one a week at most.

    Raises:
        RegistryError: the registry does not answer.
        ConfigError: a mail would be too large.
    """
    made, now = MadeMails(), clock()
    wanted = [one for one in every if _is_wanted(one, period, mails, reader.calendar, now, made)]
    if not wanted:
        return made
    words = contents(reader, period, {one.team for one in wanted}, asked)
    key = mails.key()
    for one in wanted:
        token = stop_token(key, one.list_name, one.address)
        body = edition_message(one, words[one.team], settings, token, now).decode("ascii")
        made.queued += mails.queue(Queued(one.id, period.label, period.end, body), now)
    return made


def _is_wanted(one: Edition, period: Period, mails: Mails, calendar: Calendar, now: int, made: MadeMails) -> bool:
    known = mails.subscribe(Subscription(one.id, one.list_name, one.address, now))
    if known.stopped_at is not None:
        made.left_out.append(f"{one.address}: has stopped it")
        return False
    if (before := mails.made(one.id, period.label)) is not None:
        if before.state in ("sent", "failed", "dropped"):
            made.left_out.append(f"{one.address}: {_was(before.state)} before")
        return False
    last = mails.last_sent(one.id)
    if last is not None and last >= calendar.week_of(now).start:
        made.left_out.append(f"{one.address}: has had a mail this week, and gets no more than one")
        return False
    return True


def _was(state: str) -> str:
    return {"sent": "was sent it", "failed": "was refused, and told,", "dropped": "was left out"}[state]
