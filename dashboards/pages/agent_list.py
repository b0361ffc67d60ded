"""The agents that were heard within a week: when last, how far behind, what they say of themselves."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.wire.units import SECOND_US, WEEK_US
from analyzer.interfaces.doctor.words import length_words, size
from analyzer.text.words import UNKNOWN, plain
from collector.metrics.freshness import SILENT_SECONDS
from dashboards.pages.read_pages import Sheet

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext

_SHOWN = 60
# What an agent says of itself comes with its samples, and is read from the lake: the last minutes are not in it.
_AGENTS = """
WITH heard AS (
    SELECT agent, max(received_at) AS heard, count(*) AS batches FROM receipts
    WHERE received_at > $since AND agent NOT LIKE 'import:%' GROUP BY agent
), said AS (
    SELECT node, arg_max(spool_bytes, ended_at) AS spool_bytes, sum(dropped_batches) AS dropped, sum(gaps) AS gaps,
        arg_max(clock_offset_seconds, ended_at) AS clock, arg_max(gpus_expected, ended_at) AS expected,
        arg_max(gpus_seen, ended_at) AS seen, max(ended_at) AS newest
    FROM agent_samples WHERE ended_at > (SELECT max(ended_at) FROM agent_samples) - 7 * 86400000000 GROUP BY node
)
SELECT agent, heard, batches, spool_bytes, dropped, gaps, clock, expected, seen
FROM heard LEFT JOIN said ON node = agent ORDER BY heard, agent
"""
_HEAD = (
    "agent", "heard_at_us", "batches", "spool_bytes", "dropped_batches", "gaps", "clock_offset_seconds",
    "gpus_expected", "gpus_seen",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AgentLine:
    """One agent as it is printed."""

    name: str
    heard: str
    is_silent: bool
    gpus: str
    spool: str
    dropped: str
    gaps: str
    clock: str


@dataclass(frozen=True, slots=True)
class Agents:
    """The agents, the most silent first; those that are well are named as far as they fit."""

    heard: int
    silent: int
    newest: str
    lines: tuple[AgentLine, ...]
    more: int


def agent_list(context: "RequestContext", now_us: int) -> Agents:
    """Return the agents of a week."""
    rows = _rows(context, now_us)
    ages = [(now_us - heard) / SECOND_US for _, heard, *_ in rows]
    silent = sum(age > SILENT_SECONDS for age in ages)
    lines = tuple(_line(age, *row) for age, row in zip(ages[:_SHOWN], rows[:_SHOWN], strict=True))
    newest = f"{length_words(max(0.0, min(ages)))} ago" if ages else "never"
    return Agents(len(rows), silent, newest, lines, max(0, len(rows) - _SHOWN))


def agents_sheet(context: "RequestContext", now_us: int) -> Sheet:
    """Return all of them, exact."""
    return Sheet(_HEAD, _rows(context, now_us))


def _rows(context: "RequestContext", now_us: int) -> list[tuple[Any, ...]]:
    return context.session.rows(_AGENTS, {"since": now_us - WEEK_US})


def _line(
    age: float,
    agent: str,
    _heard: int,
    _batches: int,
    spool: int | None,
    dropped: int | None,
    gaps: int | None,
    clock: float | None,
    expected: int | None,
    seen: int | None,
) -> AgentLine:
    gpus = UNKNOWN if seen is None else f"{seen:,}" if expected in (None, seen) else f"{seen:,} of {expected:,}"
    return AgentLine(
        plain(agent),
        f"{length_words(max(0.0, age))} ago",
        age > SILENT_SECONDS,
        gpus,
        UNKNOWN if spool is None else size(spool),
        UNKNOWN if dropped is None else f"{dropped:,}",
        UNKNOWN if gaps is None else f"{gaps:,}",
        UNKNOWN if clock is None else f"{clock:+.1f} s",
    )
