"""How long a recurring job takes and what it uses on one kind of GPU, by runs that were seen there: never a guess."""

from dataclasses import dataclass

_P10, _P50, _P90 = 10, 50, 90


@dataclass(frozen=True, slots=True)
class Peaks:
    """The most that any of the runs used on one host, and of memory on one GPU: gauges, not needs. None: not known."""

    cores: float | None
    memory_bytes: int | None
    gpu_memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class History:
    """Wall times of the newest completed runs of one name, size and kind of GPU on one host, the shortest first.

    Wall time is in whole seconds, from the first GPU held to the last given back; a restart is part of it. `unfinished`
    are such runs that did not complete: no figure here counts them. Moments are microseconds UTC.
    """

    name: str
    gpus: int
    seconds: tuple[int, ...]
    restarted: int
    unfinished: int
    first_us: int
    last_us: int
    peaks: Peaks
    sku: str | None = None  # the kind of GPU; None: they held none

    @property
    def runs(self) -> int:
        """How many runs it stands on."""
        return len(self.seconds)

    @property
    def p10_seconds(self) -> int:
        """A tenth of the runs took no longer."""
        return self.percentile(_P10)

    @property
    def p50_seconds(self) -> int:
        """Half of the runs took no longer."""
        return self.percentile(_P50)

    @property
    def p90_seconds(self) -> int:
        """Nine tenths of the runs took no longer."""
        return self.percentile(_P90)

    def percentile(self, percent: int) -> int:
        """Return the wall time of the run at this rank: always one that was seen, as quantile_disc gives it."""
        return self.seconds[max(0, -(-percent * len(self.seconds) // 100) - 1)]
