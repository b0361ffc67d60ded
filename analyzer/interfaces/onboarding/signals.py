"""What a source can tell, by which columns of the contract came with it: yes, in part, or no, and why."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Literal

SignalAnswer = Literal["yes", "some", "no"]
ANSWERS: tuple[SignalAnswer, ...] = ("yes", "some", "no")
_Columns = Mapping[str, Set[str]]

_ACTIVITY = {"utilization_ratio", "sm_active_ratio"}
_LIMITS = {"throttle_power_seconds", "throttle_thermal_seconds", "throttle_hardware_seconds"}
_CLOCKS = {"sm_clock_hertz", "sm_clock_reference_hertz"}
# What names the cause of input starvation, in the words of the screen.
_CAUSES: dict[str, tuple[str, str]] = {
    "disk": ("disk_samples", "busy_ratio"),
    "CPU": ("host_samples", "cpu_busy_ratio"),
    "worker": ("process_samples", "workers_busiest_cpu_ratio"),
}


@dataclass(frozen=True, slots=True)
class ImportedSignals:
    """What came: columns of each table, whether runs and how they ended are known, prices, and the time of a scrape."""

    columns: _Columns
    runs: int
    endings: int  # of these, how many are known to have ended in some way
    priced: bool
    scrape_seconds: float | None = None

    def has(self, table: str, *names: str) -> bool:
        """Whether all these columns had values."""
        return set(names) <= set(self.columns.get(table, ()))

    @property
    def sees_checkpoints(self) -> bool:
        """Whether it would show that work was saved."""
        return self.has("disk_samples", "written_bytes") or self.has("progress", "checkpoint")

    def has_any(self, table: str, names: Set[str]) -> bool:
        """Whether one of these columns had values."""
        return bool(names & set(self.columns.get(table, ())))


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that a ledger tells, and whether this source can tell it; `why` says what is missing."""

    what: str
    answer: SignalAnswer
    why: str = ""

    @property
    def words(self) -> str:
        """The capability as it stands on the screen."""
        return f"{self.what}: {self.why}" if self.why and self.answer == "some" else self.what


def capabilities(told: ImportedSignals) -> list[Capability]:
    """Return everything a ledger tells, in the order of the screen, each with what this source makes of it."""
    held, active = told.runs > 0, told.has_any("gpu_samples", _ACTIVITY)
    found = [
        Capability("allocation", _yes(held)),
        Capability("idle", _yes(held and active)),
        _lost(told, held and active),
        _throttling(told),
        Capability("underuse", _yes(told.has_any("gpu_samples", {"sm_active_ratio", "power_watts"}))),
        Capability("cost by run", _yes(held and told.priced)),
        Capability(
            "energy", _yes(told.has_any("gpu_samples", {"energy_joules", "energy_joules_total", "power_watts"}))
        ),
        _input(told, held and active),
        Capability("cross-rack", _yes(told.has("inventory", "rack") and told.has("network_samples", "transmit_bytes"))),
        Capability("checkpoint cost", _yes(told.sees_checkpoints)),
    ]
    return [*found, *_stalls(told)]


def by_answer(found: list[Capability]) -> dict[SignalAnswer, list[str]]:
    """Return the capabilities' words by answer, in order."""
    return {answer: [one.words for one in found if one.answer == answer] for answer in ANSWERS}


def explains_input(told: ImportedSignals) -> bool:
    """Whether everything came that names the cause of input starvation."""
    return all(told.has(*column) for column in _CAUSES.values())


def _yes(is_told: bool) -> SignalAnswer:
    return "yes" if is_told else "no"


def _lost(told: ImportedSignals, seen: bool) -> Capability:
    """What was saved is lost to nobody: without a sight of checkpoints nobody knows what a run that failed lost."""
    return Capability("lost work", _yes(seen and told.endings > 0 and told.sees_checkpoints))


def _throttling(told: ImportedSignals) -> Capability:
    """Clocks say how much is lost, and the driver's counters by what; the ledger needs both."""
    if told.has("gpu_samples", *_CLOCKS) and told.has_any("gpu_samples", _LIMITS):
        return Capability("throttling by heat or power", "yes")
    return Capability("throttling by heat or power", "no")


def _input(told: ImportedSignals, seen: bool) -> Capability:
    missing = [name for name, column in _CAUSES.items() if not told.has(*column)]
    if not seen:
        return Capability("input starvation", "no")
    if not missing:
        return Capability("input starvation", "yes")
    listed = missing[0] if len(missing) == 1 else f"{', '.join(missing[:-1])} or {missing[-1]}"
    seen_why = "seen, but not why" if len(missing) == len(_CAUSES) else "seen, and why only in part"
    return Capability("input starvation", "some", f"{seen_why} (no {listed} figures)")


def _stalls(told: ImportedSignals) -> list[Capability]:
    """A reading every half minute shows no pause that is shorter, unless the driver's own samples came with it."""
    if told.scrape_seconds is None or told.scrape_seconds <= 1 or told.has("gpu_samples", "utilization_zero_ratio"):
        return []
    return [Capability(f"stalls under {told.scrape_seconds:g} s", "no")]
