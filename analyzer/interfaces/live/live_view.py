"""What one look at the fleet, or at one host, finds: records, and the pace at which their GPUs cost."""

from dataclasses import dataclass

from analyzer.queries.ledger_query import Breakdown

STRETCHES = 6  # of ten minutes each: the last hour of a run


@dataclass(frozen=True, slots=True)
class DriverFigures:
    """What the driver said in the last minutes, over all GPUs of a line. None: no GPU of it reported this."""

    busy_ratio: float | None  # SM activity where it is measured, else NVML's utilization
    memory_used_bytes: int | None
    memory_bytes: int | None  # of those GPUs whose use is known
    power_watts: float | None  # of a GPU, the mean
    temperature_celsius: float | None  # of the hottest

    @property
    def memory_ratio(self) -> float | None:
        """How full their memory is, from 0 to 1."""
        if self.memory_used_bytes is None or not self.memory_bytes:
            return None
        return self.memory_used_bytes / self.memory_bytes


@dataclass(frozen=True, slots=True)
class LiveLine:
    """One line of the screen: a run, a label of what no run holds, or one holder of one GPU of a host."""

    name: str
    run_id: str | None  # None: held by no run
    team: str | None
    gpus: int
    index: int | None  # of one GPU: its number on its host
    sku: str | None
    breakdown: Breakdown
    figures: DriverFigures
    trend: tuple[float | None, ...]  # useful share of the last stretches, oldest first; None where it held nothing


@dataclass(frozen=True, slots=True)
class LiveView:
    """The newest hour of the ledger, or as much of it as is booked. Times are microseconds UTC."""

    currency: str
    timezone: str
    node: str | None  # None: the whole fleet
    start: int
    end: int  # up to when the ledger knows
    gpus: int
    breakdown: Breakdown
    lines: tuple[LiveLine, ...]

    @property
    def window_ms(self) -> int:
        """How much of the hour is booked."""
        return (self.end - self.start) // 1000

    def cost(self, of: Breakdown) -> int | None:
        """Return what this cost in the window, in millionths; None where a part has no price."""
        return None if of.unpriced else of.cost_micros or 0
