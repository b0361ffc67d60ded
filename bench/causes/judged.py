"""Labelled windows as the product judges them: each hour in the light of what came before it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from agent.wire.units import HOUR_MS
from analyzer.ledger.causes import input_starvation
from analyzer.ledger.causes.input_starvation import InputJudgement, Sign
from analyzer.ledger.causes.witnesses import INPUTS
from analyzer.ledger.classifier import Classifier
from analyzer.ledger.thresholds import CONTEXT_MS, Thresholds
from analyzer.ledger.windows import RunFacts
from bench.causes.labelled import LabelledRun, LabelledWindow

LIMITS = Thresholds()
OF_INPUT = INPUTS | {input_starvation.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of a run: its own windows, which are the last of those that are seen with it."""

    windows: Sequence[LabelledWindow]
    signs: Sequence[Sign]


@dataclass(frozen=True, slots=True)
class Told:
    """What is told of one window that stands still: a cause or none, how probable, whether booked; and what is right.

    `causes` and `suspects` are those of the labelled window.
    """

    cause: str | None
    share: int
    is_booked: bool
    causes: tuple[str, ...]
    suspects: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Say whether the cause is one that may rightly be told; of input alone, whether it is any of its causes."""
        is_input = self.cause == input_starvation.UNKNOWN and not INPUTS.isdisjoint(self.causes)
        return is_input or self.cause in self.causes or self.cause in self.suspects


def hours(run: LabelledRun) -> Iterator[Hour]:
    """Yield the hours of a run, each seen as the product sees it."""
    facts = RunFacts("", "training", 0, 1, None)  # signs are told by windows alone
    classifier = Classifier([each.window for each in run.windows], facts, LIMITS)
    for hour_ms, own in groupby(run.windows, key=lambda each: each.window.window_ms // HOUR_MS * HOUR_MS):
        yield Hour(list(own), classifier.seen(hour_ms - CONTEXT_MS, hour_ms + HOUR_MS).signs)


def told(runs: Iterable[LabelledRun]) -> Iterator[Told]:
    """Yield what the shipped table tells of each window that stands still and that nothing else explains."""
    for run in runs:
        for hour in hours(run):
            found = input_starvation.detect(hour.signs, LIMITS)[-len(hour.windows) :]
            for labelled, judgement in zip(hour.windows, found, strict=True):
                if labelled.is_open and judgement.is_low:
                    yield _told(labelled, judgement)


def _told(labelled: LabelledWindow, judgement: InputJudgement) -> Told:
    return Told(judgement.cause, judgement.share, judgement.is_booked, labelled.causes, labelled.suspects)
