"""Where a recommendation stands: what was predicted, what was decided, when it was applied. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from analyzer.recommendations.lifecycle.prediction import Prediction
from analyzer.recommendations.lifecycle.word import Decision, Word, last_words, said_applied

Stage = Literal["proposed", "accepted", "rejected", "applied"]


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """That a change was seen to have been made; `seen` says by what."""

    applied_at: int
    by_run: str
    seen: str


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision that counts, as reports tell it: who said it is for the audit."""

    word: Decision
    because: str | None
    recorded_at: int


@dataclass(frozen=True, slots=True)
class LifecycleStatus:
    """One recommendation of the book: what it is held to, and how far it has come."""

    prediction: Prediction  # what it said when it was decided, else before it was applied, else first
    word: Decided | None
    applied_at: int | None
    by: str | None  # how it is known that it was applied: "said", or what was seen

    @property
    def id(self) -> str:
        """The recommendation's id."""
        return self.prediction.recommendation_id

    @property
    def stage(self) -> Stage:
        """How far it has come; what was rejected and made all the same is applied."""
        if self.applied_at is not None:
            return "applied"
        return self.word.word if self.word else "proposed"


def statuses(
    predictions: Sequence[Prediction], words: Sequence[Word], seen: Mapping[str, AppliedChange]
) -> tuple[LifecycleStatus, ...]:
    """Return every recommendation of the book, in order of the hours that it was first made of.

    What was said of when it was applied goes before what was seen. `predictions` are in order of their periods.
    """
    by_id: dict[str, list[Prediction]] = {}
    for one in predictions:
        by_id.setdefault(one.recommendation_id, []).append(one)
    last, said = last_words(words), said_applied(words)
    return tuple(_standing(own, last.get(one), said.get(one), seen.get(one)) for one, own in by_id.items())


def _standing(
    own: Sequence[Prediction], word: Word | None, said: int | None, seen: AppliedChange | None
) -> LifecycleStatus:
    applied_at = said if said is not None else seen.applied_at if seen else None
    by = "said" if said is not None else seen.seen if seen else None
    decided = [one for one in own if word is not None and one.id == word.prediction_id]
    earlier = [one for one in own if applied_at is not None and one.span.end <= applied_at]
    chosen = decided or earlier[-1:] or own
    told = Decided(word.word, word.because, word.recorded_at) if word is not None else None
    return LifecycleStatus(chosen[0], told, applied_at, by)
