"""What people decide of recommendations. Pure: which words there are, which one counts, what a rejection keeps away."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Literal
from zoneinfo import ZoneInfo

from analyzer.errors import ConfigError
from analyzer.period import micros

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
        raise ConfigError(f"{text!r} is no moment: say 2026-12-01 or 2026-12-01T08:00") from error
    if moment > now_us:
        raise ConfigError(f"{text} has not come yet: say when the change was made")
    return moment


def _in_order(words: Iterable[Word]) -> list[Word]:
    return sorted(words, key=lambda one: (one.recorded_at, one.word_id))
