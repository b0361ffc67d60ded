"""When hosts were out of service, as Slurm's accounting remembers it: `sacctmgr show event`."""

from dataclasses import dataclass

from collector.errors import SchedulerError
from collector.schedulers.slurm.fields import microseconds, text, words
from collector.schedulers.slurm.nodes import power_reason, state_word

# The reason stands last: it may hold whatever separates the others.
FIELDS = "cluster,nodename,start,end,state,reason"
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


def node_events(said: bytes) -> list[Event]:
    """Return the events of a text whose first line names the fields; what is no host's is passed over.

    Raises:
        SchedulerError: it is not the text of `sacctmgr --parsable2 show event`.
    """
    head, *lines = said.decode("utf-8", "replace").splitlines() or [""]
    titles = [title.strip().lower() for title in head.split("|")]
    if missing := [title for title in _TITLES[1:5] if title not in titles]:
        raise SchedulerError(
            f"its first line does not name {', '.join(missing)}; make it with: SLURM_TIME_FORMAT=%s "
            f"sacctmgr --parsable2 show event start=TIME format={FIELDS}"
        )
    records = (dict(zip(titles, line.split("|", len(titles) - 1), strict=False)) for line in lines)
    found = (_event(dict.fromkeys(_TITLES, "") | record) for record in records)
    return [event for event in found if event is not None]


def _event(record: dict[str, str]) -> Event | None:
    node, started_at = text(record["nodename"]), microseconds(record["timestart"])
    states = tuple(_SHORT.get(word, word) for word in words(record["state"]))
    state = state_word(states)
    if node is None or started_at is None or state in (None, "up"):
        return None
    reason = text(record["reason"]) or power_reason(states)
    return Event(node, str(state), started_at, microseconds(record["timeend"]), reason, text(record["cluster"]))
