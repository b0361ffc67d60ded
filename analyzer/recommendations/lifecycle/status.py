"""Where a recommendation stands: what was predicted, what was decided, when it was applied. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import Field

from analyzer.errors import ConfigError
from analyzer.period import micros
from analyzer.recommendations.lifecycle.prediction import Prediction
from analyzer.text.as_json import WHOLE

Decision = Literal["accepted", "rejected"]


@dataclass(frozen=True, slots=True)
class Word:
    """One decision. `applied_at` is when the change was made, where somebody said so; microseconds UTC."""

    word_id: str
    recommendation_id: str
    prediction_id: str
    word: Decision
    because: str | None
    applied_at: int | None
    who: str
    recorded_at: int
    team: str | None


def last_words(words: Iterable[Word]) -> dict[str, Word]:
    """Return the word that counts of each recommendation: the last, of words of one moment the later id."""
    return {one.recommendation_id: one for one in _in_order(words)}


def said_applied(words: Iterable[Word]) -> dict[str, int]:
    """Return when changes were made as people said it, by recommendation; a later rejection takes it back."""
    said: dict[str, int] = {}
    for one in _in_order(words):
        if one.word == "rejected":
            said.pop(one.recommendation_id, None)
        elif one.applied_at is not None:
            said[one.recommendation_id] = one.applied_at
    return said


def rejected_at(words: Iterable[Word]) -> dict[str, int]:
    """Return when each recommendation that is rejected now was rejected: what a cool-down counts from."""
    return {one: word.recorded_at for one, word in last_words(words).items() if word.word == "rejected"}


def moment_of(text: str, timezone: str, now_us: int) -> int:
    """Return the moment that a date or a time means; of a date its beginning, in the site's time zone.

    Raises:
        ConfigError: it is none, or has not come yet.
    """
    zone = ZoneInfo(timezone)
    try:
        if len(text) == len("2026-12-01"):
            moment = micros(datetime.combine(date.fromisoformat(text), time(), tzinfo=zone))
        else:
            at = datetime.fromisoformat(text)
            moment = micros(at if at.tzinfo else at.replace(tzinfo=zone))
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{text!r} is not a valid time: give 2026-12-01 or 2026-12-01T08:00") from error
    if moment > now_us:
        raise ConfigError(f"{text} is in the future: give the time of the change")
    return moment


def _in_order(words: Iterable[Word]) -> list[Word]:
    return sorted(words, key=lambda one: (one.recorded_at, one.word_id))


Stage = Literal["proposed", "accepted", "rejected", "applied"]


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """That a change was seen to have been made; `seen` says by what."""

    applied_at: int
    by_run: str
    seen: str


@dataclass(frozen=True, slots=True)
class LastDecision:
    """The decision that counts, as reports tell it: who said it is for the audit."""

    word: Decision
    because: str | None
    recorded_at: int


@dataclass(frozen=True, slots=True)
class LifecycleStatus:
    """One recommendation of the book: what it is held to, and how far it has come.

    `prediction` is what it said when it was decided, else before it was applied, else first. What was rejected and made
    all the same is applied.
    """

    __pydantic_config__ = WHOLE
    prediction: Prediction
    word: LastDecision | None
    applied_at: int | None
    by: Annotated[str | None, Field(description='How it is known that it was applied: "said", or what was seen.')]
    id: str = field(init=False, default="")
    stage: Stage = field(init=False, default="proposed")

    def __post_init__(self) -> None:
        decided = self.word.word if self.word else "proposed"
        object.__setattr__(self, "id", self.prediction.recommendation_id)
        object.__setattr__(self, "stage", "applied" if self.applied_at is not None else decided)


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
    told = LastDecision(word.word, word.because, word.recorded_at) if word is not None else None
    return LifecycleStatus(chosen[0], told, applied_at, by)
