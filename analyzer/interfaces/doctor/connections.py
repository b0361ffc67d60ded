"""Whom the server hears and reaches: agents, those who come with keys, and the weekly e-mail's readers.

Of agents: how fresh the newest is, who is silent, whose clock is off, who speaks another version. Of the door: the
certificate, and keys that end soon.
"""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from agent.wire.contract import SCHEMA_VERSION
from agent.wire.units import DAY_SECONDS, DAY_US, HOUR_SECONDS, HOUR_US, SECOND_US, WEEK_SECONDS
from analyzer.errors import AnalyzerError, ConfigError
from analyzer.interfaces.doctor.sight import (
    CheckLine,
    MailSight,
    Section,
    Sight,
    count,
    length_words,
    minute_words,
    some,
)
from analyzer.interfaces.mail.editions import CATCH_UP_US, SETTLED, masked
from analyzer.ledger.coverage import known_hours, newest_hour_end
from collector.background import IS_OWN_SENDER
from collector.pipeline.metrics import SILENT_SECONDS
from collector.registry import Send

_CLOCK_SECONDS = 2.0
_LAG_SECONDS = 900
_LAST_BATCHES = 20

_HEARD = f"""
SELECT agent, max(received_at) AS heard, max_by(schema_version, batch) AS version
FROM {{receipts}} WHERE received_at > ? AND NOT {IS_OWN_SENDER} GROUP BY agent ORDER BY heard, agent
"""
# A batch that waited in a spool came late by no fault of a clock: the least delay of the last ones tells the clock.
_CLOCKS = f"""
SELECT agent, min(late)::BIGINT, quantile_disc(late, 0.5)::BIGINT FROM (
    SELECT agent, received_at - sent_at AS late, row_number() OVER (PARTITION BY agent ORDER BY batch DESC) AS k
    FROM {{receipts}} WHERE received_at > ? AND NOT {IS_OWN_SENDER})
WHERE k <= ? GROUP BY agent HAVING abs(quantile_disc(late, 0.5)) > ? ORDER BY abs(min(late)) DESC, agent
"""
# What was put aside is kept in the hot file, the newest of it: of each host how much, and the last reason.
_ASIDE = """
SELECT agent, count(*) AS told, arg_max(reason, (received_at, reason)) AS last FROM {hot}.quarantine
WHERE received_at > ? GROUP BY agent ORDER BY told DESC, agent
"""


def agents(sight: Sight) -> Section:
    """Return what is to be said of those who send."""
    heard = sight.session.rows(_HEARD.format(receipts=sight.receipts), [sight.now_us - DAY_US])
    if not heard:
        return Section("AGENTS", (CheckLine("note", "no agent has sent anything within a day"),))
    if sight.is_simulated:
        return Section("AGENTS", (_simulated(sight, heard), *_versions(sight, heard)))
    told = (_lag(sight, heard[-1][1]), _silent(sight, heard), *_clocks(sight), *_versions(sight, heard))
    return Section("AGENTS", (*told, *_not_believed(sight)))


def _simulated(sight: Sight, heard: list[tuple[str, int, int]]) -> CheckLine:
    ago = length_words((sight.now_us - heard[-1][1]) / SECOND_US)
    words = f"{count(len(heard), 'agent')} sent a simulated week, the newest batch {ago} ago; none is expected to go on"
    return CheckLine("note", words)


def _lag(sight: Sight, newest_us: int) -> CheckLine:
    age = max(0.0, (sight.now_us - newest_us) / SECOND_US)
    words = f"the newest batch came {length_words(age)} ago"
    if sight.store.hot is None:
        words += ", of those that are sealed"
    if age <= _LAG_SECONDS:
        return CheckLine("ok", words)
    if not sight.is_served:
        todo = "start gpuledger serve; a copy to look at needs nothing"
        return CheckLine("bad", f"nobody serves this store; {words}", todo)
    return CheckLine("bad", words, "see whether the server answers /readyz, and an agent's log")


def _silent(sight: Sight, heard: list[tuple[str, int, int]]) -> CheckLine:
    """Judge by now; of a store that nobody serves (a backup, a copy) by its newest batch, since none can come to it."""
    until = sight.now_us if sight.is_served else heard[-1][1]
    silent = [(agent, at) for agent, at, _ in heard if (until - at) / SECOND_US > SILENT_SECONDS]
    if not silent:
        of_newest = "" if sight.is_served else " of the newest batch"
        return CheckLine(
            "ok", f"{count(len(heard), 'agent')} sent within {length_words(SILENT_SECONDS)}{of_newest}; none is silent"
        )
    named = some([f"{agent} since {minute_words(at)}" for agent, at in silent])
    verb = "is" if len(silent) == 1 else "are"
    words = f"{len(silent):,} of {count(len(heard), 'agent')} of today {verb} silent: {named}"
    return CheckLine("bad", words, "on the host: systemctl status gpuledger-agent; gpuledger agent doctor")


def _clocks(sight: Sight) -> Iterator[CheckLine]:
    found = sight.session.rows(
        _CLOCKS.format(receipts=sight.receipts),
        [sight.now_us - HOUR_US, _LAST_BATCHES, round(_CLOCK_SECONDS * SECOND_US)],
    )
    off = [(agent, least) for agent, least, _ in found if abs(least) > _CLOCK_SECONDS * SECOND_US]
    late = [(agent, median) for agent, least, median in found if abs(least) <= _CLOCK_SECONDS * SECOND_US]
    if off:
        named = some([f"{agent} {_offset(least)}" for agent, least in off])
        yield CheckLine(
            "bad",
            f"{count(len(off), 'clock')} off by more than {_CLOCK_SECONDS:g} s: {named}",
            "set chrony or NTP there",
        )
    if late:
        named = some([f"{agent} by {length_words(median / SECOND_US)}" for agent, median in late])
        yield CheckLine("note", f"batches come late, by a full spool or a slow network: {named}")
    if not found:
        yield CheckLine("ok", f"every clock is within {_CLOCK_SECONDS:g} s of this one")


def _offset(least_us: int) -> str:
    words = f"{abs(least_us) / SECOND_US:.1f} s"
    return f"{words} ahead" if least_us < 0 else f"{words} behind"


def _versions(sight: Sight, heard: list[tuple[str, int, int]]) -> Iterator[CheckLine]:
    newer = [agent for agent, _, version in heard if version > SCHEMA_VERSION]
    older = [agent for agent, _, version in heard if version < SCHEMA_VERSION]
    if newer:
        yield CheckLine(
            "note", f"{_speak(newer)} a newer schema than this server ({SCHEMA_VERSION})", "upgrade the server"
        )
    if older:
        yield CheckLine("note", f"{_speak(older)} an older schema than this server ({SCHEMA_VERSION})")
    ignored = {} if sight.live is None else {kind: number for kind, number in sight.live.ignored.items() if number}
    if ignored:
        words = " and ".join(count(number, kind) for kind, number in sorted(ignored.items()))
        yield CheckLine("note", f"{words} of newer agents were not read since the server began")
    if not newer and not older:
        yield CheckLine("ok", f"all speak schema {SCHEMA_VERSION}, as this server does")


def _not_believed(sight: Sight) -> Iterator[CheckLine]:
    """Tell of rows that were put aside within a day: a fault of a host, or a host that tells what is not its own."""
    if sight.store.hot is None:
        return
    found = sight.session.rows(_ASIDE.format(hot=sight.store.hot), [sight.now_us - DAY_US])
    if found:
        agent, _, reason = found[0]
        rows = count(sum(told for _, told, _ in found), "row")
        words = f"{rows} of {some([agent for agent, _, _ in found])} put aside within a day; {agent}: {reason}"
        yield CheckLine("note", words, "look at that host; the table quarantine has the first rows of each batch")


def _speak(names: list[str]) -> str:
    return f"{some(names)} {'speaks' if len(names) == 1 else 'speak'}"


_SEQUENCE, _VERSION, _UTC_TIME, _GENERAL_TIME = 0x30, 0xA0, 0x17, 0x18


def ends_at(pem: str) -> int:
    """Return the last moment of the first certificate of a PEM file, in microseconds UTC.

    Raises:
        ValueError: it is no certificate.
    """
    try:
        begin = pem.index("-----BEGIN CERTIFICATE-----")
        end = pem.index("-----END CERTIFICATE-----", begin) + len("-----END CERTIFICATE-----")
        der = ssl.PEM_cert_to_DER_cert(pem[begin:end])
        (_, certificate), *_ = _parts(der)
        (_, signed), *_ = _parts(certificate)
        fields = [part for part in _parts(signed) if part[0] != _VERSION]
        _, (kind, until) = list(_parts(fields[3][1]))  # serial, algorithm, issuer, validity
        return _moment(kind, until.decode("ascii"))
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError("it is not an X.509 certificate") from error


def _moment(kind: int, text: str) -> int:
    if kind not in (_UTC_TIME, _GENERAL_TIME):
        raise ValueError("its dates are in no form of X.509")
    full = text if kind == _GENERAL_TIME else ("19" if int(text[:2]) >= 50 else "20") + text  # RFC 5280, 4.1.2.5.1
    return round(datetime.strptime(full, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp() * 1_000_000)


def _parts(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of what follows one another; lengths beyond the data end it."""
    at = 0
    while at < len(der):
        tag, length, at = der[at], der[at + 1], at + 2
        if length & 0x80:
            width = length & 0x7F
            length, at = int.from_bytes(der[at : at + width]), at + width
        yield tag, der[at : at + length]
        at += length


_BAD_SECONDS, _NOTE_SECONDS = WEEK_SECONDS, 30 * DAY_SECONDS


def access(sight: Sight) -> Section:
    """Return the lines on keys and certificates."""
    return Section("ACCESS", (*_certificate(sight), *_keys(sight)))


def _certificate(sight: Sight) -> Iterator[CheckLine]:
    file = sight.config.tls_certificate
    if not file:
        yield CheckLine("ok", "no certificate is set: whatever is before the server has its own")
        return
    shown = sight.live.certificate if sight.live is not None else None  # what lies on the disk may not be it
    try:
        left = (ends_at(shown or Path(file).read_text()) - sight.now_us) / SECOND_US
    except (OSError, ValueError) as error:
        yield CheckLine("unseen", f"the certificate {file}: {getattr(error, 'strerror', None) or error}")
        return
    if left <= 0:
        yield CheckLine(
            "bad",
            f"the certificate ended {length_words(-left)} ago",
            "renew it: within seconds it is served, or the log says why not",
        )
        return
    soon = left < _BAD_SECONDS
    answer = CheckLine("ok", f"the certificate is good for {length_words(left)}")
    if left < _NOTE_SECONDS:
        answer = CheckLine(
            "bad" if soon else "note",
            f"the certificate ends in {length_words(left)}",
            "renew it: within seconds it is served, or the log says why not",
        )
    yield answer


def _keys(sight: Sight) -> Iterator[CheckLine]:
    if sight.registry_error is not None:
        yield CheckLine(
            "bad", sight.registry_error, "where it is damaged, put back that of a backup (gpuledger admin restore)"
        )
        return
    if sight.keys is None:
        yield CheckLine("unseen", "keys: the registry was not reached from here", "use --server URL")
        return
    live = [key for key in sight.keys if key.live(sight.now_us)]
    ending = [key for key in live if key.expires_at and key.expires_at - sight.now_us < _BAD_SECONDS * SECOND_US]
    if not ending:
        yield CheckLine("ok", f"{count(len(live), 'key')} open; none ends within {length_words(_BAD_SECONDS)}")
        return
    named = some([f"{key.name or key.id} {minute_words(key.expires_at or 0)}" for key in ending])
    yield CheckLine(
        "note", f"{count(len(ending), 'key')} of {len(live):,} end soon: {named}", "gpuledger admin access rotate KEY"
    )


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
