"""How good the predictor was: how often what was realised lay inside what was predicted, and better shares. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

LEAST = 10  # of fewer cases no rate is told: one more or less would decide it
SHARES_LEAST = 20  # of fewer cases no share is proposed: its P5 would be the worst of them
INNER_PERMILLE, OUTER_PERMILLE = 600, 900  # what P20-P80 and P5-P95 promise
_QUANTILES = {"p5": 50, "p20": 200, "p50": 500, "p80": 800, "p95": 950}  # in permille


@dataclass(frozen=True, slots=True)
class CalibrationCase:
    """One prediction and what it came to, in one unit, a week; `lost` is the loss that it is a share of."""

    kind: str
    when: str  # what it is counted under over time, such as 2026-11
    predicted: Mapping[str, int]
    realised: int
    lost: int | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """Cases of one kind or time. `outer` counts those that had a P5 and a P95, `outside` of them those beyond."""

    cases: int
    inside: int  # of P20-P80
    below: int  # came out less than P20
    outer: int
    inside_outer: int

    @property
    def permille(self) -> int | None:
        """The share inside P20-P80, rounded down; None of fewer than ten cases."""
        return self.inside * 1000 // self.cases if self.cases >= LEAST else None

    @property
    def outer_permille(self) -> int | None:
        """The share inside P5-P95, rounded down; None of fewer than ten cases."""
        return self.inside_outer * 1000 // self.outer if self.outer >= LEAST else None


@dataclass(frozen=True, slots=True)
class Calibration:
    """All cases together, by kind, and by when they were predicted."""

    whole: Tally
    kinds: tuple[tuple[str, Tally], ...]
    times: tuple[tuple[str, Tally], ...]


def calibration(cases: Sequence[CalibrationCase]) -> Calibration:
    """Return how often predictions held."""
    return Calibration(_tally(cases), _by(cases, "kind"), _by(cases, "when"))


def _by(cases: Iterable[CalibrationCase], what: str) -> tuple[tuple[str, Tally], ...]:
    groups: dict[str, list[CalibrationCase]] = defaultdict(list)
    for case in cases:
        groups[getattr(case, what)].append(case)
    return tuple((name, _tally(own)) for name, own in sorted(groups.items()))


def _tally(cases: Sequence[CalibrationCase]) -> Tally:
    outer = [case for case in cases if "p5" in case.predicted and "p95" in case.predicted]
    return Tally(
        len(cases),
        sum(case.predicted["p20"] <= case.realised <= case.predicted["p80"] for case in cases),
        sum(case.realised < case.predicted["p20"] for case in cases),
        len(outer),
        sum(case.predicted["p5"] <= case.realised <= case.predicted["p95"] for case in outer),
    )


def proposed_shares(cases: Iterable[CalibrationCase]) -> dict[str, dict[str, int]]:
    """Return, by kind, the quantiles in permille of the share of a loss that such changes did recover.

    Of kinds with twenty cases and more whose loss is known; a share lies between 0 and all of it. They are offered;
    analyzer/recommendations/outcome/learned.py uses them where the settings say so.
    """
    shares: dict[str, list[int]] = defaultdict(list)
    for case in cases:
        if case.lost:
            shares[case.kind].append(min(1000, max(0, case.realised * 1000 // case.lost)))
    return {
        kind: {name: _quantile(sorted(own), permille) for name, permille in _QUANTILES.items()}
        for kind, own in sorted(shares.items())
        if len(own) >= SHARES_LEAST
    }


def _quantile(ascending: Sequence[int], permille: int) -> int:
    """Return the value that so many permille of them do not exceed, as quantile_disc does."""
    return ascending[max(0, -(-len(ascending) * permille // 1000) - 1)]
