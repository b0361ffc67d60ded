"""The phases of a run, step after step, and what of them falls between given times. Times are seconds of the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from bench.truth.kinds import AT, Kind, Label

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]

Seen = Kind | tuple[Kind, ...]  # what all ranks do, or what each group of ranks does at the same time


@dataclass(frozen=True, slots=True)
class Part:
    """One phase of every step: its share of the step's time, how much that varies, and how it drifts over the run."""

    seen: Seen
    share: float
    sigma: float = 0.05  # of the logarithm
    drift: float = 0.0  # amplitude of a slow wave over the share
    every: int = 1  # only in each n-th step, and then n times as long


class Tape:
    """Records phases until the run's end; what is played beyond is cut off."""

    def __init__(self, rng: np.random.Generator, seconds: float, groups: int = 1) -> None:
        self.seconds = seconds
        self.now = 0.0
        self._rng = rng
        self._groups = groups
        self._kinds: list[tuple[Kind, ...]] = []
        self._numbers: list[Integers] = []
        self._lengths: list[Floats] = []

    @property
    def left(self) -> float:
        """How much of the run is still to be played."""
        return max(0.0, self.seconds - self.now)

    def play(self, seen: Seen, seconds: float) -> None:
        """Append one phase."""
        seconds = min(seconds, self.left)
        if seconds > 0:
            self._append(np.array([self._number(seen)], dtype=np.int64), np.array([seconds]))

    def steps(self, parts: Sequence[Part], step: float, seconds: float) -> None:
        """Append steps of some `step` seconds each, made of these parts, for so many seconds."""
        seconds = min(seconds, self.left)
        if seconds <= 0:
            return
        total = sum(part.share for part in parts)
        count = int(seconds / (step * total) * 1.3) + 3 * max(part.every for part in parts) + 3
        at: Floats = self.now + np.arange(count, dtype=np.float64) * step
        lengths = np.stack([self._lengths_of(part, at) for part in parts], axis=1) * step
        ends = np.cumsum(lengths.ravel())
        last = int(np.searchsorted(ends, seconds))
        numbers = np.tile(np.array([self._number(part.seen) for part in parts], dtype=np.int64), count)
        taken = lengths.ravel()[: last + 1].copy()
        taken[-1] -= max(0.0, float(ends[min(last, len(ends) - 1)]) - seconds)
        self._append(numbers[: last + 1], taken)

    def timelines(self) -> list["Timeline"]:
        """Return what each group of ranks did."""
        lengths = np.concatenate(self._lengths)
        edges = np.concatenate([[0.0], np.cumsum(lengths)])
        edges[-1] = self.seconds
        numbers = np.concatenate(self._numbers)
        return [Timeline(edges, numbers, [kinds[group] for kinds in self._kinds]) for group in range(self._groups)]

    def _lengths_of(self, part: Part, at: Floats) -> Floats:
        noise = np.exp(self._rng.normal(-(part.sigma**2) / 2, part.sigma, len(at)))
        period, begun = self._rng.uniform(600, 3600), self._rng.uniform(0, 2 * np.pi)
        wave = 1 + part.drift * np.sin(2 * np.pi * at / period + begun)
        which = part.every * (np.arange(len(at)) % part.every == int(self._rng.integers(part.every)))
        lengths: Floats = part.share * noise * wave * which
        return lengths

    def _append(self, numbers: Integers, lengths: Floats) -> None:
        self._numbers.append(numbers)
        self._lengths.append(lengths)
        self.now += float(lengths.sum())

    def _number(self, seen: Seen) -> int:
        kinds = (seen,) * self._groups if isinstance(seen, Kind) else seen
        assert len(kinds) == self._groups, "BUG: a phase needs a kind for each group of ranks"
        self._kinds.append(kinds)
        return len(self._kinds) - 1


@dataclass(frozen=True, slots=True)
class Timeline:
    """Phases that abut: phase i lasts from edges[i] to edges[i + 1] and is kinds[numbers[i]]."""

    edges: Floats
    numbers: Integers
    kinds: list[Kind]

    def sums(self, names: Sequence[str], times: Floats) -> Floats:
        """Return the integral of each signal from the start to each of these ascending times, a row a time."""
        rates = np.zeros((len(self.kinds), len(names)))
        for row, kind in enumerate(self.kinds):
            rates[row] = [kind.values.get(name, 0.0) for name in names]
        return self._integrated(rates, times)

    def means(self, names: Sequence[str], times: Floats) -> dict[str, Floats]:
        """Return the mean of each signal between neighbouring times."""
        assert all(name in AT for name in names), "BUG: no such signal"
        found = np.diff(self.sums(names, times), axis=0) / np.diff(times)[:, None]
        return {name: found[:, at] for at, name in enumerate(names)}

    def labels(self) -> list[Label]:
        """Return every label that a phase of it bears."""
        return list(dict.fromkeys(label for kind in self.kinds for label, _ in kind.labels))

    def labelled(self, times: Floats) -> Floats:
        """Return the seconds of each label between neighbouring times, a row an interval and a column a label."""
        names = self.labels()
        shares = np.zeros((len(self.kinds), len(names)))
        for row, kind in enumerate(self.kinds):
            for label, share in kind.labels:
                shares[row, names.index(label)] += share
        found: Floats = np.diff(self._integrated(shares, times), axis=0)
        return found

    def _integrated(self, rates: Floats, times: Floats) -> Floats:
        of_phase = rates[self.numbers]
        sums = np.zeros((len(self.edges), rates.shape[1]))
        np.cumsum(of_phase * np.diff(self.edges)[:, None], axis=0, out=sums[1:])
        phase = np.clip(np.searchsorted(self.edges, times, "right") - 1, 0, len(self.numbers) - 1)
        result: Floats = sums[phase] + of_phase[phase] * (times - self.edges[phase])[:, None]
        return result
