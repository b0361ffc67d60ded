"""What one run's GPUs drew, and its carbon: beside its price, which has power in it already."""

from dataclasses import dataclass

from analyzer.finops.non_gpu_costs.costs import energy_of, read_drawn_of_run
from analyzer.finops.non_gpu_costs.energy import MILLIJOULES_PER_KWH, summed_energy
from analyzer.finops.non_gpu_costs.rates import Rates
from analyzer.period import Period
from analyzer.text.rounding import nearest
from analyzer.text.words import decimal
from collector.store.session import Session

_MILLIGRAMS_PER_KG = 1_000_000
_NEARLY_ALL_PERMILLE = 990  # of its GPU time; where less was measured, the figure is the least that it can be


@dataclass(frozen=True, slots=True)
class RunEnergy:
    """Millijoules at the GPUs by their own counters and for how long that is known; with cooling and losses; carbon.

    The latter two are None where the price file has no row that says them. Hosts, network and disks are in none.
    """

    gpu_millijoules: int
    measured_ms: int
    facility_millijoules: int | None
    carbon_milligrams: int | None


def run_energy(session: Session, run_id: str, span: Period, rates: Rates) -> RunEnergy | None:
    """Return the energy of a run, of open hours by the rates of now; None where no GPU of it told any."""
    drawn = read_drawn_of_run(session, span, run_id)
    if not drawn:
        return None
    whole = summed_energy(energy_of(drawn, session, span, rates))
    return RunEnergy(whole.gpu_millijoules, whole.measured_ms, whole.facility_millijoules, whole.carbon_milligrams)


def run_energy_words(one: RunEnergy, held_ms: int) -> str:
    """Return "446 kWh at the GPUs, 221 kg CO2e"; without what is not known."""
    least = "at least " if one.measured_ms * 1000 < held_ms * _NEARLY_ALL_PERMILLE else ""
    told = f"{least}{_amount(one.gpu_millijoules, MILLIJOULES_PER_KWH)} kWh at the GPUs"
    if one.carbon_milligrams is None:
        return told
    return f"{told}, {_amount(one.carbon_milligrams, _MILLIGRAMS_PER_KG)} kg CO2e"


def _amount(units: int, per_whole: int) -> str:
    """Return an amount as exactly as one of its size is told: 5,937, 44.6 or 0.446."""
    decimals = 0 if units >= 100 * per_whole else 1 if units >= per_whole else 3
    return decimal(nearest(units * 10**decimals, per_whole), decimals)
