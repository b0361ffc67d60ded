"""What is broken, drained or silent, and from when until when."""

from dataclasses import dataclass
from typing import Literal

from simulator import labels
from simulator.activity import NOTHING, OFF_THE_BUS, Activity
from simulator.labels import Label

# down: the host is dead, its agent too. drained: nobody may start on it. lost: a GPU is off the bus, the agent says
# so. silent: the agent is down, nothing is known.
OutageKind = Literal["down", "drained", "lost", "silent"]

_TRUTH: dict[str, Label] = {"down": labels.NODE_DOWN, "silent": labels.AGENT_DOWN}


@dataclass(frozen=True, slots=True)
class Outage:
    """One of them; `gpu` is None for a whole host. Times are milliseconds since the site's start."""

    node: str
    gpu: int | None
    start: int
    end: int
    kind: OutageKind
    reason: str

    @property
    def silences(self) -> bool:
        """Whether no rows arrive meanwhile."""
        return self.kind in _TRUTH

    @property
    def restarts_counters(self) -> bool:
        """Whether the driver is loaded anew afterwards."""
        return self.kind in ("down", "lost")

    def touches(self, node: str, gpu: int) -> bool:
        """Whether it is about this GPU."""
        return self.node == node and self.gpu in (None, gpu)

    def changes(self, activity: Activity) -> Activity:
        """Return what an activity becomes under it."""
        if self.kind == "lost":
            return OFF_THE_BUS.being(labels.GPU_LOST)
        held = activity.truth != NOTHING.truth
        if self.kind == "drained":
            return activity if held else activity.being(labels.DRAINED)
        if self.kind == "silent" and not held:
            return activity  # that nobody held it is known without an agent
        return activity.being(_TRUTH[self.kind])
