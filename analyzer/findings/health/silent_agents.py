"""Owned hosts of which nobody hears, and agents that miss beats, lose batches or have another clock."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_US
from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.limits import LIMITS, NoticeLimits
from analyzer.findings.health.notice import Notice, Span, notice_id
from analyzer.ledger.unjudged import Unjudged
from analyzer.queries.statements import statements
from analyzer.text.wording import counted, length_of_time, percent

if TYPE_CHECKING:
    from collector.store.session import Session

RULE = "fleet/silent_agents"
_LOOK_BACK_US = 2 * HOUR_US  # how far the last word is sought to the microsecond; before that the hour is enough


@dataclass(frozen=True, slots=True)
class Agent:
    """What was heard of one owned host in a period. Sums are of the period, None where the agent does not say."""

    node: str
    gpus: int
    never_seen: bool
    is_expected: bool  # owned to the end, and not down in its scheduler's word
    last_at: int | None = None  # microseconds UTC
    told_ms: int | None = None  # for how long the agent told of itself
    gaps: int | None = None  # beats that it missed
    beat_ms: int | None = None
    dropped_batches: int = 0
    dropped_rows: int = 0
    offset_ms: int | None = None  # from the collector's clock, the median, without its sign
    paused: bool = False


def find_notices(session: "Session", span: Span) -> Iterator[Notice | Unjudged]:
    """Yield notices by host."""
    (select,) = statements("findings/health/silence.sql")
    (newest,) = session.row(
        "SELECT max(hour) FROM ledger_hours WHERE hour >= ? AND hour < ?", [span.start_us, span.end_us]
    )
    if newest is None:
        return
    values: dict[str, object] = {
        "start": span.start_us,
        "end": span.end_us,
        "newest": max(span.start_us, newest + HOUR_US - _LOOK_BACK_US),
    }
    agents = [Agent(*row) for row in session.rows(select, values)]
    if agents and all(agent.never_seen and agent.last_at is None for agent in agents):
        # Job history alone, as an import brings it: agents that were never there are not silent.
        yield span.unjudged(RULE, f"no host reports telemetry: none of {counted(len(agents), 'host')} was measured")
        return
    if agents and all(agent.told_ms is None for agent in agents):
        # What an import or a Prometheus brought has no agent: that its samples end somewhere is no agent's silence.
        yield span.unjudged(RULE, "no agent told of itself (agent_samples): its silence, gaps and clock are not known")
        return
    yield from notices_of(agents)


def notices_of(agents: Sequence[Agent], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield notices of all hosts; the newest word of any of them is what silence is measured against."""
    newest = max((agent.last_at for agent in agents if agent.last_at is not None), default=None)
    for agent in agents:
        yield from _silence(agent, newest, limits)
        yield from _missing(agent, limits)
        yield from _clock(agent, limits)


def _silence(agent: Agent, newest: int | None, limits: NoticeLimits) -> Iterator[Notice]:
    owns = f"{counted(agent.gpus, 'GPU')} paid for and not measured"
    if agent.never_seen and agent.last_at is None:
        yield _notice(
            "never_seen",
            agent,
            f"is owned and has never reported: {owns}; install its agent, or end its row in the fleet file",
            (EvidenceLine("last word", "none"),),
            "the host reports under another name",
        )
    elif newest is not None and agent.last_at is not None and agent.is_expected:
        silent_ms = (newest - agent.last_at) // 1000
        if silent_ms > limits.silent_ms:
            why = "paused by its operator" if agent.paused else "silent"
            yield _notice(
                "silent",
                agent,
                f"{why} for {length_of_time(silent_ms)}: {owns}; look at gpuledger-agent there",
                (EvidenceLine("last word", f"{length_of_time(silent_ms)} before the newest of the fleet"),),
                "its samples wait on its disk and come late",
            )


def _missing(agent: Agent, limits: NoticeLimits) -> Iterator[Notice]:
    if agent.dropped_batches:
        yield _notice(
            "dropped",
            agent,
            f"its spool was full and dropped {counted(agent.dropped_batches, 'batch').replace('batchs', 'batches')} "
            f"({agent.dropped_rows:,} rows): give it more disk, or find why the collector was out of reach",
            (EvidenceLine("dropped", f"{agent.dropped_rows:,} rows"),),
            "the rows were brought by an import since",
        )
    if not agent.gaps or not agent.told_ms or not agent.beat_ms:
        return
    missed = 1000 * agent.gaps * agent.beat_ms // (agent.told_ms + agent.gaps * agent.beat_ms)
    if missed > limits.missed_beats_permille:
        yield _notice(
            "gaps",
            agent,
            f"its agent missed {percent(missed)} of its beats: see what holds it up (top, a driver call that hangs)",
            (EvidenceLine("missed beats", f"{agent.gaps:,}", f"over {percent(limits.missed_beats_permille)}"),),
            "the host was suspended or so full that everything on it waited",
        )


def _clock(agent: Agent, limits: NoticeLimits) -> Iterator[Notice]:
    if agent.offset_ms is not None and agent.offset_ms > limits.clock_offset_ms:
        yield _notice(
            "clock",
            agent,
            f"its clock is {agent.offset_ms / 1000:.1f} s off the collector's, and runs' starts and ends as uncertain: "
            "see its chrony or ntpd",
            (EvidenceLine("offset", f"{agent.offset_ms / 1000:.1f} s", f"over {limits.clock_offset_ms / 1000:.0f} s"),),
            "it is the collector's clock that is wrong: then all agents say so",
        )


def _notice(kind: str, agent: Agent, sentence: str, evidence: tuple[EvidenceLine, ...], wrong_if: str) -> Notice:
    rule = f"{RULE}/{kind}"
    return Notice(
        notice_id(rule, agent.node),
        rule,
        agent.node,
        sentence,
        "platform",
        "high",
        node=agent.node,
        evidence=evidence,
        wrong_if=wrong_if,
    )
