"""Each recommendation as a person weighs it: what moves from where to where, what it saves, the lines to copy."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from analyzer.interfaces.text.recommendation_files import COLUMNS, sheet_rows
from analyzer.interfaces.text.recommendation_text import WHERE, told_lines
from analyzer.interfaces.text.saving_words import bill_words, saved_over, saving_column
from analyzer.ledger.coverage import fleet, measured, unjudged
from analyzer.period import Period
from analyzer.recommendations.artefact import Artefact
from analyzer.recommendations.fleet_plan.move import Placement
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.recommendation_words import HOLDS, actor_words, cost_short, is_predicted, place_words, stays
from analyzer.text.words import counted, nothing_recommended, plain, plain_sentence
from dashboards.pages.read_pages import Sheet

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext

_NODES_SHOWN = 48
_SHOWN = 50
_SAID_ABOVE = ("from", "to", "why", "who can act")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Nodes that follow one another in the order of ranks, all of one rack; `shade` tells racks apart."""

    rack: str
    shade: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeSide:
    """Where something is, or should be: in words, and as stretches of racks where hosts are named."""

    words: str
    stretches: tuple[Stretch, ...]
    more: int


@dataclass(frozen=True, slots=True)
class Paste:
    """One text to copy, and what it is for."""

    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """One recommendation as the page shows it."""

    id: str
    title: str
    saves: str
    over: str  # of which span: "a week"
    actor: str
    cost: str
    confidence: str
    why: str
    before: ChangeSide
    after: ChangeSide
    told: tuple[tuple[str, str], ...]
    checks: tuple[tuple[str, str, str], ...]
    pastes: tuple[Paste, ...]
    finding_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """All of a period, those that save most first, and what they save together."""

    sentence: str
    changes: tuple[Change, ...]
    held_back: int
    more: int

    @property
    def ids(self) -> frozenset[str]:
        """The ids of those that are shown."""
        return frozenset(one.id for one in self.changes)


def changes_view(context: "RequestContext", period: Period) -> Changes:
    """Return what is recommended now, of what may be seen."""
    known = context.all_advice(period)
    standing = [advice for advice in known if advice.stands]
    shown = standing[:_SHOWN]
    amounts, together = saving_column(shown, context.currency) if shown else ([], "")
    zone = period.timezone
    made = tuple(_change(one, amount, context.currency, zone) for one, amount in zip(shown, amounts, strict=True))
    sentence = _sentence(context, period, shown, together)
    return Changes(sentence, made, len(known) - len(standing), len(standing) - len(shown))


def changes_sheet(context: "RequestContext", period: Period) -> Sheet:
    """Return all recommendations of a period, exact; also those that a guard holds back."""
    return Sheet(COLUMNS, sheet_rows(context.all_advice(period), context.currency))


def _sentence(context: "RequestContext", period: Period, shown: Sequence[Recommendation], together: str) -> str:
    if not shown:
        seen = measured(context.session, period)
        return nothing_recommended(seen.held, seen.silent, len({one.rule for one in unjudged(context.session, period)}))
    what = counted(len(shown), "change")
    bill = bill_words(shown, fleet(context.session, period), context.currency, period.timezone)
    return f"{what} would likely save {together} {saved_over(shown)} together: {bill}"


def _change(one: Recommendation, amount: str, currency: str, zone: str) -> Change:
    before, after = _sides(one)
    told = tuple((label, text) for label, text in told_lines(one, currency, zone) if label not in _SAID_ABOVE)
    return Change(
        one.id,
        plain(f"{one.subject}: {one.title}"),
        amount if is_predicted(one) else "not predicted",
        saved_over([one]),
        actor_words(one),
        cost_short(one, currency),
        one.confidence,
        _sentence_of(one.why),
        before,
        after,
        told,
        tuple((HOLDS[each.holds], plain_sentence(each.what), plain_sentence(each.told)) for each in one.constraints),
        _pastes(one.artefacts),
        one.finding_ids,
    )


def _sentence_of(words: str) -> str:
    text = plain_sentence(words)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _sides(one: Recommendation) -> tuple[ChangeSide, ChangeSide]:
    """Return before and after: hosts where some move, else the words of the change."""
    if one.move is None or stays(one.move):
        return ChangeSide(plain_sentence(one.from_), (), 0), ChangeSide(plain_sentence(one.to), (), 0)
    here, there = one.move.from_, one.move.to
    racks = sorted({rack or "" for place in (here, there) if place is not None for rack in place.racks})
    shades = {rack: number for number, rack in enumerate(racks)}
    before = _side(here, shades, plain_sentence(one.from_) or "not placed yet")
    return before, _side(there, shades, plain_sentence(one.to) or "given back")


def _side(place: Placement | None, shades: dict[str, int], words: str) -> ChangeSide:
    if place is None:
        return ChangeSide(words, (), 0)
    pairs = list(zip(place.nodes, place.racks, strict=True))[:_NODES_SHOWN]
    stretches = tuple(
        Stretch(plain(rack or "rack unknown"), shades[rack or ""] % 6, tuple(plain(node) for node, _ in own))
        for rack, own in groupby(pairs, key=lambda pair: pair[1])
    )
    return ChangeSide(
        f"{words} ({place_words(place)})" if not stretches else words, stretches, len(place.nodes) - len(pairs)
    )


def _pastes(artefacts: Sequence[Artefact]) -> tuple[Paste, ...]:
    """Return the texts, those for one place together."""
    found: dict[str, list[str]] = {}
    for each in artefacts:
        found.setdefault(WHERE[each.form], []).append(each.text)
    return tuple(Paste(where.capitalize(), "\n".join(texts)) for where, texts in found.items())
