"""The weekly e-mail: is it set up, when did one leave last, what waits, who is refused, does the server answer."""

from collections.abc import Iterator

from agent.wire.units import DAY_SECONDS, HOUR_SECONDS, SECOND_US
from analyzer.errors import AnalyzerError, ConfigError
from analyzer.interfaces.doctor.sight import CheckLine, MailSight, Section, Sight, count, length_words, some
from analyzer.interfaces.mail.editions import CATCH_UP_US, SETTLED, masked
from analyzer.ledger.coverage import known_hours, newest_hour_end
from collector.registry import Send

_TIMER_SECONDS = 3 * DAY_SECONDS  # after a week's end: it closes after two, and the timer fires within the third
_OLD_QUEUE_SECONDS = 12 * HOUR_SECONDS
_WAITING = ("queued", "sending")


def mail(sight: Sight) -> Section:
    """Return the lines on the weekly e-mail."""
    return Section("MAIL", tuple(_lines(sight)))


def _lines(sight: Sight) -> Iterator[CheckLine]:
    seen = sight.mail
    if seen is None:
        yield CheckLine("unseen", "the settings of the mail were not read from here")
        return
    if seen.settings.is_empty:
        yield CheckLine("ok", "no mail is set up: the settings have no [mail]")
        return
    try:
        seen.settings.ready(sight.settings.site_url)
    except ConfigError as error:
        yield CheckLine("bad", str(error))
        return
    if seen.sends is None:
        yield CheckLine("unseen", "what was sent: the registry was not reached from here", "gpuledger admin mail")
    else:
        yield from _sent(sight, seen.sends)
        yield from _waiting(sight, seen.sends)
        yield from _refused(seen.sends)
    yield from _answers(seen)


def _sent(sight: Sight, sends: tuple[Send, ...]) -> Iterator[CheckLine]:
    sent = [one for one in sends if one.state == "sent" and one.done_at is not None]
    newest = max(sent, key=lambda one: one.done_at or 0, default=None)
    missed = _missed(sight, sends)
    if missed is not None:
        label, ago = missed
        what = f"the week {label} ended {length_words(ago)} ago and was mailed to nobody"
        yield CheckLine("bad", what, "systemctl enable --now gpuledger-mail.timer; or gpuledger report --mail")
    if newest is not None:
        ago = (sight.now_us - (newest.done_at or 0)) / SECOND_US
        yield CheckLine("ok", f"the newest mail left {length_words(max(0.0, ago))} ago, on {newest.period}")
    elif missed is None:
        yield CheckLine("note", "no mail has left yet; they do when a week has closed")


def _missed(sight: Sight, sends: tuple[Send, ...]) -> tuple[str, float] | None:
    """Return the last week, and how long ago it ended, where it is closed and no mail of it was even made."""
    known_until = newest_hour_end(sight.session)
    if known_until is None:
        return None
    calendar = sight.settings.calendar
    week = calendar.last_complete_week(known_until)
    ago = sight.now_us - week.end
    if not _TIMER_SECONDS * SECOND_US < ago < CATCH_UP_US or known_hours(sight.session, week).status not in SETTLED:
        return None
    return None if any(one.period == week.label for one in sends) else (week.label, ago / SECOND_US)


def _waiting(sight: Sight, sends: tuple[Send, ...]) -> Iterator[CheckLine]:
    waiting = [one for one in sends if one.state in _WAITING]
    if not waiting:
        return
    age = (sight.now_us - min(one.made_at for one in waiting)) / SECOND_US
    verb = "waits" if len(waiting) == 1 else "wait"
    told = next((one.told for one in waiting if one.told), "")
    since = length_words(max(0.0, age))
    what = f"{count(len(waiting), 'mail')} {verb}, the oldest for {since}{f': {told}' if told else ''}"
    yield CheckLine("bad" if age > _OLD_QUEUE_SECONDS else "note", what, "gpuledger admin mail --retry tries them now")


def _refused(sends: tuple[Send, ...]) -> Iterator[CheckLine]:
    newest = max((one.period for one in sends), default="")
    refused = [masked(one.address) for one in sends if one.state == "failed" and one.period == newest]
    if refused:
        who = f"{count(len(refused), 'reader')} did not get {newest}: {some(refused)}"
        yield CheckLine("bad", who, "gpuledger admin mail says what the server said; then mend [mail] or the address")


def _answers(seen: MailSight) -> Iterator[CheckLine]:
    name = f"the SMTP server {seen.settings.host}:{seen.settings.port}"
    if seen.greet is None:
        yield CheckLine(
            "unseen", f"whether {name} answers was not tried from here", "gpuledger admin doctor --store FILE does"
        )
        return
    try:
        seen.greet()
    except AnalyzerError as error:
        yield CheckLine("bad", str(error), "see host, port, security, ca and password_file of [mail]")
    else:
        how = "in the clear, on this machine" if seen.settings.security == "none" else "over TLS that is verified"
        yield CheckLine("ok", f"{name} answers, {how}{', and knows us' if seen.settings.user else ''}")
