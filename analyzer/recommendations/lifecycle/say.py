"""Decide on a recommendation: the command line and the API do it here, and so keep and refuse the same."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from analyzer.findings.finding import Finding
from analyzer.findings.history.judgement import reason_of
from analyzer.findings.history.say import Statement
from analyzer.ids import by_id
from analyzer.period import Period
from analyzer.recommendations.lifecycle.lifecycle_tables import add_predictions, add_word, new_word_id, predictions
from analyzer.recommendations.lifecycle.prediction import Prediction, predicted
from analyzer.recommendations.lifecycle.status import Decision, Word
from analyzer.recommendations.recommendation import Recommendation
from analyzer.recommendations.saving import Share
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Offer:
    """Where a recommendation was found by its id: all that is recommended then, and against which findings."""

    advice: list[Recommendation]
    findings: list[Finding]
    period: Period

    def has(self, typed: str) -> bool:
        """Whether any of its ids begins so."""
        return any(one.id.startswith(typed) for one in self.advice)


@dataclass(frozen=True, slots=True)
class _InBook:
    """An id of the book, to be found by how it begins."""

    id: str


def decide(
    session: Session,
    offer: "Offer",
    sees: Callable[[Prediction], bool],
    recommendation_id: str,
    decision: Decision,
    said: Statement,
    applied_at: int | None = None,
    realised: Mapping[str, Share] | None = None,
) -> Word:
    """Keep one decision, with what the recommendation predicted when it was made.

    `offer` is the reading that offers it to whom decides; one that is recommended no more is taken from the book, where
    `sees` says that it may be. What is not in the book yet is written down with it, and with the version of the shares:
    `realised` are those that took the place of assumed ones.

    Raises:
        ConfigError: a rejection has no reason.
        LedgerError: there is no such recommendation.
    """
    because = reason_of(said.because) if decision == "rejected" or said.because else None
    prediction = _of_offer(session, offer, recommendation_id, said.recorded_at, realised or {})
    if prediction is None:
        book = {one.recommendation_id: one for one in predictions(session) if sees(one)}
        absent = (
            f"{offer.period.label} has no recommendation {recommendation_id!r}, and the book knows none: "
            "gpuledger recommendations lists them; --since names another period"
        )
        prediction = book[by_id([_InBook(one) for one in book], recommendation_id, absent).id]
    word = Word(
        new_word_id(),
        prediction.recommendation_id,
        prediction.id,
        decision,
        because,
        applied_at,
        said.who,
        said.recorded_at,
        prediction.team,
    )
    add_word(session, word)
    return word


def _of_offer(
    session: Session,
    offer: "Offer",
    typed: str,
    now_us: int,
    realised: Mapping[str, Share],
) -> Prediction | None:
    """Return what is predicted of the recommendation that is meant, written down; None where the period has none."""
    begin = [one for one in offer.advice if one.id.startswith(typed)]
    if not begin:
        return None
    one = by_id(begin, typed, f"{typed!r} is too short an id: type one more letter")
    (prediction,) = predicted(session, [one], offer.findings, offer.period, now_us, realised)
    add_predictions(session, [prediction])
    kept = {each.id: each for each in predictions(session)}
    return kept[prediction.id]
