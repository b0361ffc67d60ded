"""The scores of some tallies, and the bars that they are held to."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from bench.truth.tally import Key, Tally, summed

UNCOUNTED = "not counted"

Choice = Callable[[Key], bool]


@dataclass(frozen=True, slots=True)
class Scores:
    """Shares from 0 to 1; None where there was nothing to count. Dollars are of what is avoidable."""

    runs: int
    precision: float | None  # of runs booked starved, those that are
    recall: float | None  # of starved runs, those that are booked so
    right_cause: float | None  # of the starved runs that were found
    idle_precision: float | None  # of runs booked idle for 5% and more, those that are
    idle_precision_hours: float | None  # of GPU time booked idle
    taken_for_input: float | None  # of runs that truly communicate and are not starved
    abstained: float | None  # of runs with something avoidable
    dollars: float | None  # booked over true
    dollars_off: float | None  # median over runs of the difference, up or down
    dollars_within: float | None  # runs within a tenth
    high: int
    high_right: float | None  # findings of high confidence that are right in state and cause
    high_right_state: float | None

    @classmethod
    def of(cls, tallies: Iterable[Tally]) -> "Scores":
        """Return the scores of these together."""
        all_ = summed(tallies)
        errors = [abs(error) for error in all_.dollar_errors_permille]
        high = all_.findings["high"]
        return cls(
            runs=all_.runs,
            precision=_share(all_.both_starved, all_.booked_starved),
            recall=_share(all_.both_starved, all_.starved),
            right_cause=_share(all_.right_cause, all_.both_starved),
            idle_precision=_share(all_.rightly_idle, all_.booked_idle),
            idle_precision_hours=_share(all_.rightly_idle_ms, all_.booked_idle_ms),
            taken_for_input=_share(all_.taken_for_input, all_.communicating),
            abstained=_share(all_.abstained, all_.avoidable),
            dollars=_share(all_.ledger_micros, all_.truth_micros),
            dollars_off=median(errors) / 1000 if errors else None,
            dollars_within=_share(sum(error <= 100 for error in errors), len(errors)),
            high=high,
            high_right=_share(all_.findings["high right"], high),
            high_right_state=_share(all_.findings["high right state"], high),
        )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def is_sub_second(key: Key) -> bool:
    """Return whether the steps of this cell are shorter than a second."""
    return key[1] is not None and key[1] < 1


# What the scores are told apart by; the bars hold for the first.
GROUPS: dict[str, Choice] = {
    "steps of 1 s and more, or none": lambda key: not is_sub_second(key),
    "… with GPM": lambda key: not is_sub_second(key) and key[4],
    "… without GPM": lambda key: not is_sub_second(key) and not key[4],
    "… sampled every second": lambda key: not is_sub_second(key) and key[3] == 1,
    "… every ten": lambda key: not is_sub_second(key) and key[3] == 10,
    "… all samples came": lambda key: not is_sub_second(key) and not key[5],
    "… 5% missing, clocks apart": lambda key: not is_sub_second(key) and key[5],
    "… one rank": lambda key: not is_sub_second(key) and key[2] == 1,
    "… eight ranks": lambda key: not is_sub_second(key) and key[2] > 1,
    "steps under a second": is_sub_second,
    "… with GPM, under a second": lambda key: is_sub_second(key) and key[4],
    "… without GPM, under a second": lambda key: is_sub_second(key) and not key[4],
    "… every second, under a second": lambda key: is_sub_second(key) and key[3] == 1,
    "… every ten, under a second": lambda key: is_sub_second(key) and key[3] == 10,
}


def by_group(tallies: Mapping[Key, Tally]) -> dict[str, Scores]:
    """Return the scores of each group that has runs."""
    found = {}
    for name, chosen in GROUPS.items():
        those = [tally for key, tally in tallies.items() if chosen(key)]
        if those:
            found[name] = Scores.of(those)
    return found


def bars(scores: Scores) -> dict[str, bool]:
    """Return each bar of the issue, with the figure, and whether it is kept; what was not counted is not kept."""
    return {
        _said("starved or not, precision", scores.precision, "≥", 0.95): _least(scores.precision, 0.95),
        _said("starved or not, recall", scores.recall, "≥", 0.90): _least(scores.recall, 0.90),
        _said("cause of what was found starved", scores.right_cause, "≥", 0.85): _least(scores.right_cause, 0.85),
        _said("idle precision, runs", scores.idle_precision, "≥", 0.99): _least(scores.idle_precision, 0.99),
        _said("idle precision, hours", scores.idle_precision_hours, "≥", 0.99): _least(
            scores.idle_precision_hours, 0.99
        ),
        _said("communication taken for input", scores.taken_for_input, "≤", 0.03): _most(scores.taken_for_input, 0.03),
        _said("abstained", scores.abstained, "≤", 0.10): _most(scores.abstained, 0.10),
        _said("dollars, all of the fleet", scores.dollars, "within", 0.10): scores.dollars is not None
        and abs(scores.dollars - 1) <= 0.10,
        _said("dollars, median run off by", scores.dollars_off, "≤", 0.10): _most(scores.dollars_off, 0.10),
        _said("findings of high confidence that are right", scores.high_right, "≥", 0.95): _least(
            scores.high_right, 0.95
        ),
    }


def _said(what: str, figure: float | None, sign: str, bar: float) -> str:
    return f"{what}: {UNCOUNTED if figure is None else f'{figure:.1%}'} (bar {sign} {bar:.0%})"


def _least(figure: float | None, bar: float) -> bool:
    return figure is not None and figure >= bar


def _most(figure: float | None, bar: float) -> bool:
    return figure is not None and figure <= bar
