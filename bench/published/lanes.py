"""Time as it was: phases laid one after another to the millisecond, each with its truth and what its channels carry."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """What a rank does for a while. `truth`: "state/cause" by its share of the time.

    Of the host a channel is what one rank adds: cpu (cores), read, write, in, out (bytes a second), ...
    """

    truth: tuple[tuple[str, float], ...]
    channels: dict[str, float] = field(default_factory=dict)

    def but(self, *parts: dict[str, float], **channels: float) -> "Phase":
        """Return the phase with other channels; the later count."""
        together = dict(self.channels)
        for part in (*parts, channels):
            together |= part
        return Phase(self.truth, together)


def phase(truth: str, *parts: dict[str, float], **channels: float) -> Phase:
    """Return a phase wholly of one truth, its channels put together; the later counts."""
    together: dict[str, float] = {}
    for part in (*parts, channels):
        together |= part
    return Phase(((truth, 1.0),), together)


class Piece(NamedTuple):
    """A stretch of phases: which one (by index), and for how long."""

    phases: tuple[Phase, ...]
    which: NDArray[np.int64]
    seconds: Floats

    @property
    def length(self) -> float:
        """Seconds from its beginning to its end."""
        return float(self.seconds.sum())


def stretch(of: Phase, seconds: float) -> Piece:
    """Return one phase for so many seconds."""
    return Piece((of,), np.zeros(1, np.int64), np.array([max(seconds, 0.0)]))


def cycles(rng: np.random.Generator, seconds: float, parts: Sequence[tuple[Phase, float, float]]) -> Piece:
    """Return steps of (phase, mean seconds, variation) over and over until so many seconds are full."""
    means = np.array([mean for _, mean, _ in parts])
    steps = max(1, int(seconds / means.sum() * 1.2) + 5)
    spread = np.array([np.log1p(variation**2) for _, _, variation in parts])
    drawn = means * np.exp(rng.normal(0, 1, (steps, len(parts))) * np.sqrt(spread) - spread / 2)
    index = np.tile(np.arange(len(parts)), steps)
    return cut(Piece(tuple(part[0] for part in parts), index, drawn.ravel()), seconds)


def cut(piece: Piece, seconds: float) -> Piece:
    """Return the first so many seconds of a piece."""
    ends = np.cumsum(piece.seconds)
    count = min(int(np.searchsorted(ends, seconds)) + 1, len(ends))
    kept = piece.seconds[:count].copy()
    kept[-1] -= max(0.0, ends[count - 1] - seconds)
    return Piece(piece.phases, piece.which[:count], kept)


class Lane:
    """What one rank does from `start` (seconds since the day began) on; before and after it, what `rest` says."""

    def __init__(self, start: float, pieces: Sequence[Piece], rest: dict[str, float]) -> None:
        offsets = np.cumsum([0, *(len(piece.phases) for piece in pieces)])
        self.phases = tuple(one for piece in pieces for one in piece.phases)
        self.index = np.concatenate([piece.which + offset for piece, offset in zip(pieces, offsets, strict=False)])
        self.seconds = np.concatenate([piece.seconds for piece in pieces])
        self.ends = start + np.concatenate([[0.0], np.cumsum(self.seconds)])
        self.rest = rest

    @property
    def end(self) -> float:
        """When its last phase ends."""
        return float(self.ends[-1])

    def running(self, channel: str, moments: Floats) -> Floats:
        """Return what a channel has summed to by each of these moments."""
        each = np.array([one.channels.get(channel, 0.0) for one in self.phases])
        rest = self.rest.get(channel, 0.0)
        if not each.any() and not rest:
            return np.zeros(np.shape(moments))
        sums = np.concatenate([[0.0], np.cumsum(each[self.index] * self.seconds)])
        outside = np.minimum(moments, self.ends[0]) + np.maximum(moments - self.ends[-1], 0.0)
        found: Floats = np.interp(moments, self.ends, sums) + rest * outside
        return found

    def total(self, channel: str, edges: Floats) -> Floats:
        """Return what a channel sums to between each two edges."""
        return np.diff(self.running(channel, edges))

    def mean(self, channel: str, edges: Floats) -> Floats:
        """Return a channel's mean between each two edges."""
        return self.total(channel, edges) / np.diff(edges)

    def at(self, channel: str, moments: Floats) -> Floats:
        """Return a channel's value at these moments."""
        each = np.array([one.channels.get(channel, 0.0) for one in self.phases])
        index = np.clip(np.searchsorted(self.ends, moments, "right") - 1, 0, len(self.index) - 1)
        outside = (moments < self.ends[0]) | (moments >= self.ends[-1])
        found: Floats = np.where(outside, self.rest.get(channel, 0.0), each[self.index[index]])
        return found

    def truth(self, since: float | None = None, until: float | None = None) -> dict[str, float]:
        """Return the seconds of each label between two moments."""
        low = self.ends[0] if since is None else since
        high = self.ends[-1] if until is None else until
        spent = np.clip(np.minimum(self.ends[1:], high) - np.maximum(self.ends[:-1], low), 0, None)
        by_phase = np.bincount(self.index, spent, len(self.phases))
        found: dict[str, float] = defaultdict(float)
        for one, seconds in zip(self.phases, by_phase, strict=True):
            if not seconds:
                continue
            for label, share in one.truth:
                found[label] += share * float(seconds)
        return found
