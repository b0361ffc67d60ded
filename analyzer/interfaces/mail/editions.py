"""Who gets which mail, the whole fleet's or one team's; each as a message, made once, and how it is stopped."""

import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from agent.wire.units import DAY_US
from analyzer.capacity.gate.decided import Decided
from analyzer.interfaces.mail.compose import compose
from analyzer.interfaces.mail.content import Content, Footer
from analyzer.interfaces.mail.message import Envelope, message
from analyzer.interfaces.mail.sections import Joined
from analyzer.interfaces.mail.sending import MailError
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.interfaces.mail.team_week import Usual, of_team, team_facts
from analyzer.ledger.coverage import known_hours, like_before
from analyzer.period import Calendar, Period, local
from analyzer.prices.price_book import price_book
from analyzer.reports.reader import Reader
from analyzer.text.words import plain
from collector.registry import Mails, Queued, Subscription

_ID_LETTERS = 20  # of a hash in hex: 80 bits, that no two addresses of a site share
_LONGEST = 200
_NO_KEY = b"\0" * 32  # where no mail was ever made; no token fits it, for no subscription is known


def subscription_id(list_name: str, address: str) -> str:
    """Return the id of an address of a list; the domain's case does not matter to mail, and the rest is as written."""
    local, _, domain = address.rpartition("@")
    return hashlib.sha256(f"{list_name}\0{local}@{domain.lower()}".encode()).hexdigest()[:_ID_LETTERS]


def stop_token(key: bytes, list_name: str, address: str) -> str:
    """Return the token for the link in the mail to this address."""
    return f"{subscription_id(list_name, address)}.{_mac(key, list_name, address)}"


def stop_url(site_url: str, token: str) -> str:
    """Return the link."""
    return f"{site_url}/mail/stop/{token}"


def known_subscription(mails: Mails, token: str) -> Subscription | None:
    """Return whose token it is, or None; the comparison takes as long whatever is wrong with it."""
    if len(token) > _LONGEST or not token.isascii():
        return None
    found_id, _, mac = token.partition(".")
    found, key = mails.subscription(found_id), mails.known_key()
    wanted = _mac(key or _NO_KEY, found.list if found else "", found.address if found else "")
    return found if hmac.compare_digest(mac, wanted) and key is not None else None


def stop(mails: Mails, token: str, by: str = "its reader") -> Subscription | None:
    """Stop the mail that a token is of, and return whose it was; None where it is nobody's."""
    found = known_subscription(mails, token)
    if found is not None:
        mails.stop(found.id, time.time_ns() // 1000, by)
    return found


def masked(address: str) -> str:
    """Return an address so that its owner knows it, and nobody learns it: "g...@example.com"."""
    local, _, domain = address.rpartition("@")
    return f"{local[:1]}...@{domain}"


def _mac(key: bytes, list_name: str, address: str) -> str:
    return hmac.new(key, f"stop\0{list_name}\0{address}".encode(), hashlib.sha256).hexdigest()


_FLEET = "fleet"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXAMPLE = MailSettings(sender="gpuledger@example.com", recipients=("gpu-owners@example.com",))


@dataclass(frozen=True, slots=True)
class Edition:
    """One address and what it gets; `team` None is the whole fleet. `list_name` is what the registry knows it by."""

    list_name: str
    address: str
    team: str | None

    @property
    def id(self) -> str:
        """The id of its subscription."""
        return subscription_id(self.list_name, self.address)


def editions(settings: MailSettings) -> list[Edition]:
    """Return all editions of the settings, each address of a list once."""
    found = [Edition(_FLEET, address, None) for address in settings.recipients]
    found += [Edition(f"team:{team}", address, team) for team, address in settings.teams.items()]
    return list({edition.id: edition for edition in found}.values())


def tried(settings: MailSettings) -> MailSettings:
    """Return settings that suffice to write mails to files: those of an example where nothing is set yet."""
    return settings if settings.sender and editions(settings) else _EXAMPLE


def edition_message(
    edition: Edition, content: Content, settings: MailSettings, token: str | None, made_at_us: int
) -> bytes:
    """Return the mail to one address; `token` None is a trial, whose link stops nothing.

    Raises:
        ConfigError: its HTML would be over 100 KB.
    """
    host = re.sub(r"^https?://|[:/].*$", "", content.site_url or "") or settings.sender.rpartition("@")[2]
    cluster = _slug(content.cluster or "fleet")
    parts = [cluster, host] if edition.team is None else [_slug(edition.team), cluster, host]
    name = f"weekly report of {plain(content.cluster) if content.cluster else 'the fleet'}"
    link = stop_url(content.site_url, token if token is not None else "trial") if content.site_url else None
    sender_name = f"gpuledger {plain(content.cluster)}" if content.cluster else "gpuledger"
    envelope = Envelope(
        settings.sender,
        sender_name,
        edition.address,
        name if edition.team is None else f"{name} for {plain(edition.team)}",
        ".".join(["week", *parts]),
        f"<week.{_slug(content.period)}.{edition.id}@{settings.sender.rpartition('@')[2]}>",
        _EPOCH + timedelta(microseconds=made_at_us // 1_000_000 * 1_000_000),
        Footer(_why(edition), link, settings.stops_at or None),
    )
    return message(content, envelope)


def file_names(found: list[Edition], period: str) -> Mapping[str, str]:
    """Return for each edition's id the name of the file that a trial writes it to."""
    return {one.id: f"{_slug(period)}-{_slug(one.team or _FLEET)}-{one.id[:8]}.eml" for one in found}


def _why(edition: Edition) -> str:
    whose = "" if edition.team is None else f" for {plain(edition.team)}"
    return f"{edition.address} receives this report{whose} at most once a week."


def _slug(name: str) -> str:
    """Return a name as a part of a host's name: letters, digits and dashes."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:50] or "none"


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
        raise MailError(f"{period.label} is not a week: an e-mail covers one week, such as 2026-W46")
    if now_us - period.end > CATCH_UP_US:
        ended = local(period.end - 1, period.timezone).date()
        raise MailError(
            f"{period.label} ended on {ended}, more than {CATCH_UP_US // DAY_US} days ago, and is no longer mailed; "
            "is the ledger up to date? --dry-run writes the e-mail to a file"
        )
    status = known_hours(reader.session, period).status
    if status not in SETTLED:
        raise MailError(
            f"{period.label} is {status or 'not analyzed'}, and its figures may still change: weeks close 48 h after "
            "they end, and are mailed then; --dry-run writes the e-mail to a file now"
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
        made.left_out.append(f"{one.address}: unsubscribed")
        return False
    if (before := mails.made(one.id, period.label)) is not None:
        if before.state in ("sent", "failed", "dropped"):
            made.left_out.append(f"{one.address}: {_was(before.state)}")
        return False
    last = mails.last_sent(one.id)
    if last is not None and last >= calendar.week_of(now).start:
        made.left_out.append(f"{one.address}: already received an e-mail this week")
        return False
    return True


def _was(state: str) -> str:
    return {"sent": "already sent", "failed": "already refused and reported", "dropped": "already skipped"}[state]
