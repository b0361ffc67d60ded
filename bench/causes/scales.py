"""The table of witnesses with a scale on each cell and a prior for each row: fitted to labelled windows, and asked.

With scales of one it tells what the product tells. A fit makes the posterior of the right cause as large as it can over
all windows alike, and pays for each scale that departs from one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyzer.ledger.causes import input_starvation, witnesses
from analyzer.ledger.causes.witnesses import (
    BOOKED_PERMILLE,
    CAUSES,
    INPUTS,
    NOT_A_HABIT_DECIBANS,
    SUSPECTED_PERMILLE,
    TABLE,
    TOGETHER_PERMILLE,
    WIDTH,
)
from analyzer.ledger.windows import RunWindow
from bench.causes.judged import LIMITS, Told, hours
from bench.causes.labelled import LabelledRun, LabelledWindow

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ROUNDS, STEPS_A_ROUND = 8, 10  # which window is the middle one is looked up anew in each round
RATE = 0.06
TIED = 0.003  # what a scale of 0 or 2 costs, in nats of the mean window; a prior moved by ten decibans costs as much
_NATS = np.log(10) / 10  # of a deciban
_CELLS = max(len(row.cells) for row in TABLE)
_ROWS_OF = [[at for at, row in enumerate(TABLE) if row.cause == cause] for cause in CAUSES]
_OWN = np.array([[name in row.own for name in row.cells] + [False] * (_CELLS - len(row.cells)) for row in TABLE])
_IS_INPUT = np.array([cause in INPUTS for cause in CAUSES])
_BY_NAME = np.argsort(np.array(CAUSES))


@dataclass(frozen=True, slots=True)
class Scales:
    """A factor on the decibans of each cell, by row and place in the row, and each row's prior in decibans."""

    cells: Floats
    priors: Floats

    @classmethod
    def shipped(cls) -> "Scales":
        """Return the table as it is."""
        return cls(np.ones((len(TABLE), _CELLS)), np.array([float(row.prior) for row in TABLE]))


@dataclass(frozen=True, slots=True)
class Windows:
    """What windows say, and which are judged: of each its neighbours by number, -1 where there is none."""

    says: Floats  # window x row x cell: decibans
    reported: NDArray[np.bool_]  # window x row: any witness of its own
    near: Integers  # judged x neighbour
    habit: NDArray[np.bool_]  # judged
    kinds: Sequence[str]  # judged
    truths: Sequence[LabelledWindow]  # judged

    @classmethod
    def of(cls, runs: Sequence[LabelledRun]) -> "Windows":
        """Hold every window that stands still to the table."""
        says: list[Floats] = []
        reported: list[list[bool]] = []
        near: list[list[int]] = []
        habit: list[bool] = []
        kinds: list[str] = []
        truths: list[LabelledWindow] = []
        for run in runs:
            for hour in hours(run):
                is_habit = input_starvation.is_habit(hour.signs, LIMITS)
                numbers = []
                for sign in hour.signs:
                    numbers.append(len(says) if sign.is_low else -1)
                    if sign.is_low:
                        own, has = _says(sign.window)
                        says.append(own)
                        reported.append(has)
                padded = [-1] * WIDTH + numbers + [-1] * WIDTH
                first = len(numbers) - len(hour.windows)
                for at, labelled in enumerate(hour.windows, first):
                    if numbers[at] >= 0 and labelled.is_open:
                        near.append(padded[at : at + 2 * WIDTH + 1])
                        habit.append(is_habit)
                        kinds.append(run.kind)
                        truths.append(labelled)
        return cls(np.array(says), np.array(reported), np.array(near), np.array(habit), kinds, truths)

    def scores(self, scales: Scales) -> Floats:
        """Return the decibans of each window and row: a row without a witness can be contradicted alone."""
        found = (self.says * scales.cells).sum(axis=2)
        scored: Floats = scales.priors + np.where(self.reported, found, np.minimum(found, 0.0))
        return scored

    def middle(self, scores: Floats) -> Integers:
        """Return for each judged window and row which neighbour's score is the middle one."""
        around = np.where(self.near[:, :, None] >= 0, scores[self.near], np.inf)
        order = np.argsort(around, axis=1, kind="stable")
        place = ((self.near >= 0).sum(axis=1) - 1) // 2
        chosen = np.take_along_axis(order, place[:, None, None], axis=1)[:, 0, :]
        found: Integers = np.take_along_axis(self.near, chosen, axis=1)
        return found

    def told(self, scales: Scales) -> list[Told]:
        """Return what such a table tells of each judged window."""
        scores = self.scores(scales)
        of_rows = scores[self.middle(scores), np.arange(len(TABLE))] + self._habits()
        best = np.stack([of_rows[:, rows].max(axis=1) for rows in _ROWS_OF], axis=1)
        # Thousandths first: what is a whole deciban but for the last bit stays one.
        decibans = np.clip(np.floor(np.round(best, 6)), -60, 60)
        odds = np.round(10 ** (6 + decibans / 10)).astype(np.int64)
        shares = odds * 1000 // (odds.sum(axis=1) + 10**6)[:, None]
        seen = self._seen(scales)
        named = np.where(seen, shares, -1)[:, _BY_NAME]
        likeliest = _BY_NAME[named.argmax(axis=1)]
        top = named.max(axis=1)
        of_inputs = np.where(seen & _IS_INPUT, shares, 0).sum(axis=1)
        return [
            _told(CAUSES[which], int(share), int(together), truth)
            for which, share, together, truth in zip(likeliest, top, of_inputs, self.truths, strict=True)
        ]

    def _habits(self) -> Floats:
        needs = np.array([row.needs_habit for row in TABLE])
        return np.where(needs & np.logical_not(self.habit)[:, None], float(NOT_A_HABIT_DECIBANS), 0.0)

    def _seen(self, scales: Scales) -> NDArray[np.bool_]:
        """Return for each judged window and cause whether a witness of its own speaks in half of what is near."""
        witnessed = ((self.says * scales.cells > 0) & _OWN).any(axis=2)
        around = (witnessed[self.near] & (self.near >= 0)[:, :, None]).sum(axis=1)
        enough = 2 * around >= (self.near >= 0).sum(axis=1)[:, None]
        return np.stack([enough[:, rows].any(axis=1) for rows in _ROWS_OF], axis=1)

    def fitted(self, chosen: NDArray[np.bool_]) -> Scales:
        """Return the scales by which the right cause of the chosen windows is most probable."""
        scales = Scales.shipped()
        right = _right([truth.causes for truth in self.truths])[chosen]
        habits = self._habits()[chosen]
        descent = _Descent()
        for _ in range(ROUNDS):
            middle = self.middle(self.scores(scales))[chosen]
            rows = np.arange(len(TABLE))
            says, reported = self.says[middle, rows], self.reported[middle, rows]
            for _ in range(STEPS_A_ROUND):
                scales = descent.step(scales, *_slope(scales, says, reported, habits, right))
        return scales


def _says(window: RunWindow) -> tuple[Floats, list[bool]]:
    told = witnesses.read(window)
    found = np.zeros((len(TABLE), _CELLS))
    for at, row in enumerate(TABLE):
        for place, (name, points) in enumerate(row.cells.items()):
            if name in told:
                found[at, place] = witnesses.speaks(points, told[name]) / 1000
            else:
                found[at, place] = dict(row.unseen).get(name, 0)
    return found, [bool(row.own & told.keys() & row.cells.keys()) for row in TABLE]


def _told(cause: str, share: int, of_inputs: int, truth: LabelledWindow) -> Told:
    if (share < BOOKED_PERMILLE or cause not in INPUTS) and of_inputs >= TOGETHER_PERMILLE:
        return Told(input_starvation.UNKNOWN, of_inputs, is_booked=True, causes=truth.causes, suspects=truth.suspects)
    if share < SUSPECTED_PERMILLE:
        return Told(None, 0, is_booked=False, causes=truth.causes, suspects=truth.suspects)
    return Told(cause, share, share >= BOOKED_PERMILLE and cause in INPUTS, truth.causes, truth.suspects)


def _right(causes: Sequence[tuple[str, ...]]) -> NDArray[np.bool_]:
    """Return which answers are right: the causes, or, where nothing is lacking, all but inputs; the last is none."""
    waits = np.array([[cause in own for cause in CAUSES] + [False] for own in causes])
    nothing = np.append(~_IS_INPUT, True)
    return np.where(waits.any(axis=1, keepdims=True), waits, nothing)


def _slope(
    scales: Scales,
    says: Floats,
    reported: NDArray[np.bool_],
    habits: Floats,
    right: NDArray[np.bool_],
) -> tuple[Floats, Floats]:
    """Return how the loss rises with each scale and prior: the mean surprise at the truth, and what departing costs."""
    found = (says * scales.cells).sum(axis=2)
    counts = reported | (found < 0)
    of_rows = scales.priors + habits + np.where(counts, found, 0.0)
    best = np.stack([of_rows[:, rows].max(axis=1) for rows in _ROWS_OF], axis=1)
    which = np.stack([np.array(rows)[of_rows[:, rows].argmax(axis=1)] for rows in _ROWS_OF], axis=1)
    odds = np.exp(_NATS * np.clip(np.pad(best, ((0, 0), (0, 1))), -60, 60))
    shares = odds / odds.sum(axis=1, keepdims=True)
    of_right = np.maximum(1e-9, (shares * right).sum(axis=1, keepdims=True))
    rises = (shares - shares * right / of_right)[:, :-1] * _NATS / len(right)
    by_row = np.zeros_like(of_rows)
    np.put_along_axis(by_row, which, rises, axis=1)
    shipped = Scales.shipped()
    of_cells = np.einsum("nr,nrc->rc", by_row * counts, says) + 2 * TIED * (scales.cells - 1)
    return of_cells, by_row.sum(axis=0) + 2 * TIED / 100 * (scales.priors - shipped.priors)


class _Descent:
    """Adam (Kingma and Ba, 2015); a scale never turns a witness round."""

    def __init__(self) -> None:
        self._mean: list[Floats | float] = [0.0, 0.0]
        self._square: list[Floats | float] = [0.0, 0.0]
        self._steps = 0

    def step(self, scales: Scales, of_cells: Floats, of_priors: Floats) -> Scales:
        self._steps += 1
        cells = scales.cells - RATE * self._direction(0, of_cells)
        priors = scales.priors - 10 * RATE * self._direction(1, of_priors)
        return Scales(np.maximum(0.0, cells), priors)

    def _direction(self, at: int, slope: Floats) -> Floats:
        self._mean[at] = 0.9 * self._mean[at] + 0.1 * slope
        self._square[at] = 0.99 * self._square[at] + 0.01 * slope**2
        mean = self._mean[at] / (1 - 0.9**self._steps)
        found: Floats = np.asarray(mean / (np.sqrt(self._square[at] / (1 - 0.99**self._steps)) + 1e-8))
        return found
