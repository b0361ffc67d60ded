"""The state of each host in Slurm, in the contract's four words: now, and as accounting remembers it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from agent.wire.units import SECOND_US
from collector.errors import SchedulerError
from collector.schedulers.books import NodeState
from collector.schedulers.slurm.fields import microseconds, text, words
from collector.schedulers.slurm.jobs import document
from collector.schedulers.slurm.rows import RowCount, RowReader, consistent, decoded, lines_of, moments, titled_rows

_MOST_NODES = 200_000
_UP = "up"
# The first that holds is the word, as Slurm itself shows it: what is drained is drained, though it is down as well.
# A host that saves power is not broken: it is out of service by decision, and comes back when it is wanted.
_WORDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("reserved", frozenset({"MAINT", "MAINTENANCE", "RESERVED"})),
    ("drained", frozenset({"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "INVAL", "INVALID_REG"})),
    ("drained", frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP"})),
    ("drained", frozenset({"REBOOT", "REBOOT_ISSUED"})),
    ("down", frozenset({"DOWN", "ERROR", "UNKNOWN"})),
)
# How long one takes to wake is told by nothing else: the span in which it is said to power up.
POWERING_UP = "powering up"
_POWER: tuple[tuple[str, frozenset[str]], ...] = (
    (POWERING_UP, frozenset({"POWERING_UP", "POWER_UP"})),
    ("powering down", frozenset({"POWERING_DOWN", "POWER_DOWN"})),
    ("powered down", frozenset({"POWERED_DOWN"})),
)
_ABSENT = frozenset({"FUTURE"})  # declared for later: no host is there
_REASON = re.compile(r"^\s*Reason=(.*?)(?: \[([^\[\]@]*)@([^\[\]]*)\])?$", re.MULTILINE)
_TEXT_NODE = re.compile(r"^NodeName=(\S+)", re.MULTILINE)
_TEXT_STATE = re.compile(r"(?:^|\s)State=(\S+)")


def nodes_in_json(said: bytes) -> list[NodeState]:
    """Return the states in the JSON of `scontrol show node` (since 23.02) or of `sinfo` (until 22.05).

    Raises:
        SchedulerError: it is the JSON of neither; newer releases of sinfo print groups of nodes.
    """
    nodes = document(said, "Slurm").get("nodes")
    if not isinstance(nodes, list):
        raise SchedulerError("Slurm printed JSON without nodes; is its Slurm release supported?")
    found = (_from_record(node) for node in nodes[:_MOST_NODES] if isinstance(node, Mapping))
    return [node for node in found if node is not None]


def nodes_in_text(said: bytes) -> list[NodeState]:
    """Return the states in the text of `scontrol show node`, a paragraph each."""
    found: list[NodeState] = []
    for paragraph in re.split(r"\n\s*\n", said.decode("utf-8", "replace")):
        name, state, reason = (pattern.search(paragraph) for pattern in (_TEXT_NODE, _TEXT_STATE, _REASON))
        if name and state and (word := state_word(words(state[1]))):
            says, since = (text(reason[1]), microseconds(reason[3])) if reason else (None, None)
            found.append(NodeState(name[1], word, says or _power_reason(words(state[1])), since))
    return found[:_MOST_NODES]


def state_word(states: tuple[str, ...]) -> str | None:
    """Return the contract's word for a state and its flags, or None where there is no host.

    Planned, not responding, mixed and completing hosts are up: jobs run on them, or could within seconds.
    """
    if _ABSENT & set(states):
        return None
    return next((word for word, signs in _WORDS if signs & set(states)), _UP)


def _power_reason(states: tuple[str, ...]) -> str | None:
    """Return why a host that saves power is out of service, as the ledger's readers know it; None of any other."""
    return next((reason for reason, signs in _POWER if signs & set(states)), None)


def _from_record(record: Mapping[str, Any]) -> NodeState | None:
    name = text(record.get("name"))
    states = (*words(record.get("state")), *words(record.get("state_flags")))
    word = state_word(states)
    if name is None or word is None:
        return None
    reason = text(record.get("reason")) or _power_reason(states)
    return NodeState(name, word, reason, microseconds(record.get("reason_changed_at")))


# The reason stands last: it may hold whatever separates the others.
EVENT_FIELDS = "cluster,nodename,start,end,state,reason"
_TITLES = ("cluster", "nodename", "timestart", "timeend", "state", "reason")
_SHORT = {
    "DRNG": "DRAINING",
    "FAILG": "FAILING",
    "RESV": "RESERVED",
    "POW_DN": "POWERED_DOWN",
    "POW_UP": "POWERING_UP",
}


@dataclass(frozen=True, slots=True)
class Event:
    """One host out of service: `state` is drained, reserved or down; `ended_at` is None while it lasts."""

    node: str
    state: str
    started_at: int
    ended_at: int | None
    reason: str | None
    cluster: str | None = None


_MADE_BY = f"make it with: SLURM_TIME_FORMAT=%s sacctmgr --parsable2 show event start=TIME format={EVENT_FIELDS}"


def node_events(said: bytes | str, zone: ZoneInfo | None = None, count: RowCount | None = None) -> list[Event]:
    """Return the events of a text in which a line near the beginning names the fields.

    Raises:
        SchedulerError: it is not the text of `sacctmgr --parsable2 show event`, or its times have no zone and nobody
            says which.
    """
    lines = lines_of(said if isinstance(said, str) else decoded(said))
    count = RowCount() if count is None else count
    blank = dict.fromkeys(_TITLES, "") | {"timeend": "Unknown"}

    def read(record: dict[str, str]) -> tuple[Event | None, int]:
        return _event(blank | record, zone)

    found: list[Event] = []
    for first, titles, rows in titled_rows(lines, _TITLES[1:5], _MADE_BY):
        found += RowReader(titles, read, lambda _: True, count).rows(rows, first)
    return found


def is_of_events(text: str) -> bool:
    """Whether a text is of sacctmgr's events, by the fields that it names."""
    return any("timestart" in line.lower().split("|") for line in text[:4096].splitlines())


def _event(record: dict[str, str], zone: ZoneInfo | None) -> tuple[Event | None, int]:
    """Return the event of a row, None where it is no host's or the host was up, and how many times are doubtful."""
    node = text(record["nodename"])
    states = tuple(_SHORT.get(word, word) for word in words(record["state"]))
    state = state_word(states)
    (start, end), doubtful = consistent(
        [moments(record[name], zone, _MADE_BY) for name in ("timestart", "timeend")], lambda _: True
    )
    if node is not None and not states:
        raise SchedulerError("it does not say in which state")
    if node is None or state in (None, "up"):
        return None, 0
    if start is None:
        raise SchedulerError("it does not say since when")
    reason = text(record["reason"]) or _power_reason(states)
    ended_at = None if end is None else end * SECOND_US
    return Event(node, str(state), start * SECOND_US, ended_at, reason, text(record["cluster"])), doubtful
