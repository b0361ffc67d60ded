"""How well the beat is kept: beats that were late or missed, and a histogram of how late each began."""

from dataclasses import dataclass, field

from agent.wire.units import SECOND_US

LATENESS_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)  # upper bounds


@dataclass(slots=True)
class Beats:
    """Counts since the agent began."""

    late: int = 0  # began more than half a period late
    missed: int = 0  # never began; the timeline's steps count as one each
    count: int = 0
    late_seconds: float = 0.0  # summed up
    within: list[int] = field(default_factory=lambda: [0] * len(LATENESS_SECONDS))  # beats that kept each bound

    def began(self, lateness: int, period: int) -> None:
        """Note that a beat began this many microseconds after its time."""
        seconds = max(0, lateness) / SECOND_US
        self.late += lateness > period // 2
        self.count += 1
        self.late_seconds += seconds
        for place, bound in enumerate(LATENESS_SECONDS):
            self.within[place] += seconds <= bound
