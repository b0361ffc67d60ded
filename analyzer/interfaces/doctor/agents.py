"""Who sends: how fresh the newest is, who is silent, whose clock is off, who speaks another version."""

from collections.abc import Iterator

from agent.wire.contract import SCHEMA_VERSION
from agent.wire.units import DAY_US, HOUR_US, SECOND_US
from analyzer.interfaces.doctor.sight import CheckLine, Section, Sight, count, length_words, minute_words, some
from collector.background import IS_OWN_SENDER
from collector.pipeline.metrics import SILENT_SECONDS

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
