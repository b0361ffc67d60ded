"""Whether the table of witnesses holds on a kind of run that it was not fitted to: python -m bench.bench_left_out.

Every cell gets a scale, fitted to the windows of all kinds but one (bench/causes/scales.py); then that kind is judged.
The windows are made once; after that it takes seconds. `--seed`, `--archetype NAME` (twice and more) choose others.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from analyzer.ledger.causes.witnesses import DIGEST, TABLE
from bench.causes.judged import Told
from bench.causes.labelled import simulated
from bench.causes.scales import Scales, Windows
from bench.machine import add_record, keep, machine, told
from bench.truth.archetypes.registry import ARCHETYPES

SEEDS = [3, 4]
POINTS = 0.05  # how much a kind that was left out may lose
ALL = "all kinds"
SHIPPED, WHOLE, WITHOUT = "shipped", "all", "left out"
_MOVED = 0.25  # a scale that the whole fit moves so far is named


@dataclass(frozen=True, slots=True)
class Score:
    """Of windows that stand still: how many wait for input, are booked so, both, and both with the right cause."""

    windows: int
    starved: int
    booked: int
    both: int
    right: int

    @classmethod
    def of(cls, windows: Iterable[Told]) -> "Score":
        """Count them."""
        seen = list(windows)
        both = [one for one in seen if one.is_booked and one.causes]
        return cls(
            len(seen),
            sum(bool(one.causes) for one in seen),
            sum(one.is_booked for one in seen),
            len(both),
            sum(one.is_right for one in both),
        )

    @property
    def precision(self) -> float | None:
        """Return the share of what is booked that waits for input."""
        return self.both / self.booked if self.booked else None

    @property
    def recall(self) -> float | None:
        """Return the share of what waits for input that is booked so."""
        return self.both / self.starved if self.starved else None

    @property
    def cause(self) -> float | None:
        """Return the share of what is rightly booked as input that has the right cause."""
        return self.right / self.both if self.both else None

    @property
    def wrongly(self) -> float:
        """Return the share of all windows that is booked and waits for no input."""
        return (self.booked - self.both) / self.windows if self.windows else 0.0


Scores = dict[str, Score]  # by the table that told


def main() -> int:
    """Make or read the windows, fit, judge, print and keep; 1 where a bar is not kept."""
    asked = _asked()
    before = machine()
    windows = Windows.of([run for seed in asked.seed or SEEDS for run in simulated(seed, asked.archetype)])
    kinds = np.array(windows.kinds)
    whole = windows.fitted(np.ones(len(kinds), dtype=np.bool_))
    of_shipped, of_whole = windows.told(Scales.shipped()), windows.told(whole)
    without: list[Told] = list(of_whole)
    for kind in np.unique(kinds):
        found = windows.told(windows.fitted(kinds != kind))
        for place in np.flatnonzero(kinds == kind):
            without[place] = found[place]
        print(".", end="", flush=True)
    together = {SHIPPED: of_shipped, WHOLE: of_whole, WITHOUT: without}
    scores = {
        str(kind): {name: Score.of(each[at] for at in np.flatnonzero(kinds == kind)) for name, each in together.items()}
        for kind in np.unique(kinds)
    }
    scores[ALL] = {name: Score.of(each) for name, each in together.items()}
    print("", *table(scores), "", *moved(whole), "", *notes(scores), "", sep="\n")
    figures = {
        "machine": before,
        "table": DIGEST,
        "seeds": asked.seed or SEEDS,
        "kinds": {kind: {name: asdict(score) for name, score in each.items()} for kind, each in scores.items()},
        "moved": moved(whole),
        "notes": notes(scores),
    }
    keep("left_out", figures, record=asked.record)
    return told(bars(scores))


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seed", type=int, action="append", default=[], help="3 and 4 if none: 101 and 102 were tuned on"
    )
    parser.add_argument("--archetype", action="append", default=[], choices=sorted(ARCHETYPES))
    add_record(parser)
    return parser.parse_args()


def table(scores: Mapping[str, Scores]) -> list[str]:
    """Return a line a kind: precision, recall and cause by each table, and what is wrongly booked, in percent."""
    lines = [f"{'':28}{'windows':>8}" + "".join(f"{name:>24}" for name in (SHIPPED, WHOLE, WITHOUT))]
    lines.append(f"{'':36}" + f"{'prec':>8}{'rec':>4}{'cause':>6}{'wrong':>6}" * 3)
    for kind, each in scores.items():
        words = "".join(
            f"{_percent(one.precision):>8}{_percent(one.recall):>4}{_percent(one.cause):>6}{_percent(one.wrongly):>6}"
            for one in each.values()
        )
        lines.append(f"{kind:28}{each[SHIPPED].windows:>8}{words}")
    return lines


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}"


def moved(scales: Scales) -> list[str]:
    """Return the cells whose weight the fit of all kinds would change, and the rows whose prior it would."""
    lines = []
    for at, row in enumerate(TABLE):
        said = f"{row.cause} by {', '.join(sorted(row.own))}"
        if abs(scales.priors[at] - row.prior) >= 10 * _MOVED:
            lines.append(f"{said}: prior {row.prior} -> {scales.priors[at]:.0f} decibans")
        lines += [
            f"{said}: {name} x {scales.cells[at, place]:.2f}"
            for place, name in enumerate(row.cells)
            if abs(scales.cells[at, place] - 1) >= _MOVED
        ]
    return lines


def bars(scores: Mapping[str, Scores]) -> dict[str, bool]:
    """Return whether what was left out is told as well as what was fitted: all kinds together, and each by itself.

    Of a kind that waits for no input any booking is wrong: there the share of its windows that is booked may not grow.
    """
    worse = [kind for kind, each in scores.items() if _lost(each) > POINTS]
    return {
        "all kinds together lose 5 points of precision and cause at most": ALL not in worse,
        f"and so does each ({', '.join(worse) or 'all'})": not worse,
    }


def _lost(of: Scores) -> float:
    whole, without = of[WHOLE], of[WITHOUT]
    pairs = ((whole.precision, without.precision), (whole.cause, without.cause)) if whole.starved else ()
    lost = [had - has for had, has in pairs if had is not None and has is not None]
    return max([without.wrongly - whole.wrongly, *lost])


def notes(scores: Mapping[str, Scores]) -> list[str]:
    """Return what the bars do not look at: kinds of which less is found when left out, and those without a booking."""
    less = [
        f"{kind} {_percent(each[WHOLE].recall)} -> {_percent(each[WITHOUT].recall)}%"
        for kind, each in scores.items()
        if (each[WHOLE].recall or 0.0) - (each[WITHOUT].recall or 0.0) > POINTS
    ]
    mute = [kind for kind, each in scores.items() if each[WITHOUT].starved and not each[WITHOUT].booked]
    return [
        f"found less when left out: {', '.join(less) or 'none'}",
        f"nothing booked when left out, so that no precision and cause was compared: {', '.join(mute) or 'none'}",
    ]


if __name__ == "__main__":
    sys.exit(main())
