"""The book of recommendations in the store: predictions as they were made, decisions as they were said.

The command line and the API decide here, and so keep and refuse the same. Where a recommendation stands follows.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import date, datetime, time
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import Field

from analyzer.errors import ConfigError
from analyzer.findings.finding import Finding
from analyzer.findings.judgement import reason_of
from analyzer.findings.say import Statement
from analyzer.ids import by_id
from analyzer.period import Period, micros
from analyzer.recommendations.lifecycle.prediction import Amount, Prediction, PredictionSpan, Versions, predicted
from analyzer.recommendations.recommendation import Recommendation, Share
from analyzer.text.as_json import WHOLE
from collector.store.session import Session

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


_PREDICTED = (
    "recommendation_id", "made_at", "period_start", "period_end", "period_label", "kind", "subject", "team", "title",
    "finding_ids", "run_ids", "nodes", "saves_ms", "saves_micros", "lost_ms", "lost_micros", "held_ms", "held_micros",
    "shares_version", "rules_version", "price_version",
)  # fmt: skip
_SAID = (
    "word_id", "recommendation_id", "prediction_id", "word", "because", "applied_at", "who", "recorded_at", "team",
)  # fmt: skip


def predictions(session: Session) -> list[Prediction]:
    """Return all that was ever predicted, in order."""
    rows = session.rows(
        f"SELECT {', '.join(_PREDICTED)} FROM recommendation_predictions ORDER BY period_end, made_at, prediction_id"
    )
    return [_prediction(row) for row in rows]


def words(session: Session) -> list[Word]:
    """Return all that was ever decided, in order."""
    rows = session.rows(f"SELECT {', '.join(_SAID)} FROM recommendation_words ORDER BY recorded_at, word_id")
    return [Word(*row) for row in rows]


def _seen_applied(session: Session) -> dict[str, AppliedChange]:
    """Return the changes that were seen to have been made, by recommendation."""
    rows = session.rows("SELECT recommendation_id, applied_at, by_run, seen FROM recommendation_applied")
    return {one: AppliedChange(applied_at, by_run, seen) for one, applied_at, by_run, seen in rows}


def lifecycle_statuses(session: Session) -> tuple[LifecycleStatus, ...]:
    """Return where every recommendation of the book stands."""
    return statuses(predictions(session), words(session), _seen_applied(session))


def rejections(session: Session) -> dict[str, int]:
    """Return when each recommendation that is rejected now was rejected, by id; microseconds UTC."""
    return rejected_at(words(session))


def add_predictions(session: Session, made: Iterable[Prediction]) -> int:
    """Add those that are not there yet, and return how many; what is there stays as it was first written."""
    known = {one for (one,) in session.rows("SELECT prediction_id FROM recommendation_predictions")}
    new = {one.id: one for one in made if one.id not in known}
    session.load("recommendation_predictions", ("prediction_id", *_PREDICTED), [_row(one) for one in new.values()])
    return len(new)


def add_applied(session: Session, recommendation_id: str, found: AppliedChange, made_at_us: int) -> None:
    """Write down once that a change was seen to have been made."""
    columns = ("recommendation_id", "applied_at", "by_run", "seen", "made_at")
    row = (recommendation_id, found.applied_at, found.by_run, found.seen, made_at_us)
    session.load("recommendation_applied", columns, [row])


def begin_turn(session: Session, turn: str, made_at_us: int) -> bool:
    """Return whether this turn was not taken yet, and take it."""
    if session.rows("SELECT 1 FROM recommendation_turns WHERE turn = ?", [turn]):
        return False
    session.load("recommendation_turns", ("turn", "made_at"), [(turn, made_at_us)])
    return True


def add_word(session: Session, word: Word) -> None:
    """Add one word; what was said before stays."""
    session.load("recommendation_words", _SAID, [astuple(word)])


def _row(one: Prediction) -> tuple[object, ...]:
    lists = (json.dumps(one.finding_ids), json.dumps(one.run_ids), json.dumps(one.nodes))
    saves = (json.dumps(one.saves_milliseconds), None if one.saves_micros is None else json.dumps(one.saves_micros))
    what = (one.kind, one.subject, one.team, one.title)
    amounts = (*astuple(one.lost), *astuple(one.held))
    return (
        one.id, one.recommendation_id, one.made_at, *astuple(one.span), *what, *lists, *saves, *amounts,
        *astuple(one.versions),
    )  # fmt: skip


def _prediction(row: tuple[Any, ...]) -> Prediction:
    recommendation_id, made_at, start, end, label, kind, subject, team, title, *rest = row
    found, runs, nodes, saves, money, lost, lost_micros, held, held_micros, *versions = rest
    return Prediction(
        recommendation_id,
        made_at,
        PredictionSpan(start, end, label),
        kind,
        subject,
        team,
        title,
        tuple(json.loads(found)),
        tuple(json.loads(runs)),
        tuple(json.loads(nodes)),
        json.loads(saves),
        None if money is None else json.loads(money),
        Amount(lost, lost_micros),
        Amount(held, held_micros),
        Versions(*versions),
    )


@dataclass(frozen=True, slots=True)
class Offer:
    """Where a recommendation was found by its id: all that is recommended then, and against which findings."""

    advice: list[Recommendation]
    findings: list[Finding]
    period: Period

    @property
    def standing(self) -> list[Recommendation]:
        """Those that no guard holds back, and that are not instead of a better one."""
        return [one for one in self.advice if one.stands]

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
            f"{offer.period.label} has no recommendation {recommendation_id!r}, nor is one on record: "
            "gpuledger recommendations lists them; --since selects another period"
        )
        prediction = book[by_id([_InBook(one) for one in book], recommendation_id, absent).id]
    word = Word(
        secrets.token_hex(8),
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
    one = by_id(begin, typed, f"{typed!r} is too short for an id: type one more letter")
    (prediction,) = predicted(session, [one], offer.findings, offer.period, now_us, realised)
    add_predictions(session, [prediction])
    kept = {each.id: each for each in predictions(session)}
    return kept[prediction.id]
