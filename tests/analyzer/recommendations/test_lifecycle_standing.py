"""How far each recommendation has come, and which of its predictions it is held to."""

from analyzer.recommendations.lifecycle.lifecycle_tables import AppliedChange, Decision, Word, statuses
from analyzer.recommendations.lifecycle.prediction import Prediction, PredictionSpan
from tests.analyzer.recommendations.lifecycle_recurring import prediction

WEEKS = [prediction(span=PredictionSpan(number * 100, (number + 1) * 100, str(number))) for number in range(3)]
ID = WEEKS[0].recommendation_id


def word(decision: Decision, of: Prediction, applied_at: int | None = None, at: int = 1) -> Word:
    """Return a word on a prediction."""
    return Word(f"w{at}", ID, of.id, decision, "why", applied_at, "cli:ada", at, None)


def test_it_is_held_to_what_was_decided_on() -> None:
    """Else to the last that was predicted before it was done, else to the first."""
    (decided,) = statuses(WEEKS, [word("accepted", WEEKS[1])], {})
    assert (decided.stage, decided.prediction.span.label) == ("accepted", "1")
    (seen,) = statuses(WEEKS, [], {ID: AppliedChange(250, "r", "fewer racks")})
    assert (seen.stage, seen.prediction.span.label, seen.by) == ("applied", "1", "fewer racks")
    (early,) = statuses(WEEKS, [], {ID: AppliedChange(50, "r", "fewer racks")})
    assert early.prediction.span.label == "0"
    (proposed,) = statuses(WEEKS, [], {})
    assert (proposed.stage, proposed.word) == ("proposed", None)


def test_what_people_say_goes_before_what_is_seen() -> None:
    """Who made the change knows when."""
    (one,) = statuses(WEEKS, [word("accepted", WEEKS[0], 170)], {ID: AppliedChange(250, "r", "fewer racks")})
    assert (one.applied_at, one.by) == (170, "said")


def test_what_was_rejected_and_seen_before_stays_applied() -> None:
    """A word undoes no allocation; that somebody said it was done is taken back."""
    (one,) = statuses(WEEKS, [word("rejected", WEEKS[0])], {ID: AppliedChange(250, "r", "fewer racks")})
    assert one.stage == "applied"
    (taken,) = statuses(WEEKS, [word("accepted", WEEKS[0], 170), word("rejected", WEEKS[0], at=2)], {})
    assert (taken.stage, taken.applied_at) == ("rejected", None)


def test_who_decided_is_in_no_report() -> None:
    """Names of people are for the audit."""
    (one,) = statuses(WEEKS, [word("accepted", WEEKS[1])], {})
    assert "ada" not in repr(one)
