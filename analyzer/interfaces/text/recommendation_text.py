"""Recommendations as text: the list, and one with all that speaks for and against it and the lines to paste."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from agent.wire.units import MICROS
from analyzer.interfaces.text.pasting import folded
from analyzer.interfaces.text.savings_text import bill_words, saved_over, saving_column, savings_head
from analyzer.ledger.coverage import Sku
from analyzer.period import Period
from analyzer.recommendations.recommendation import Artefact, Form, Recommendation
from analyzer.reports.recommendation_words import (
    HOLDS,
    actor_words,
    alternatives_words,
    cost_short,
    cost_words,
    latency_words,
    money_places,
    move_words,
    place_words,
    saves_words,
    split_words,
    standing_words,
    stays,
    tails_words,
    when_words,
)
from analyzer.reports.request import WHOLE, LedgerFilter
from analyzer.text.layout import TextLayout
from analyzer.text.table import TableColumn, paper_lines
from analyzer.text.words import counted, gpu_hours, money, owner_word, plain, plain_sentence

_LEAST_MICROS = MICROS  # the list leaves out what likely saves less
_HANG = 10
WHERE: dict[Form, str] = {
    "slurm": "PASTE into the batch script, or run on a login node",
    "kubernetes": "APPLY to the cluster",
    "rankfile": "PASTE into the batch script",
    "mig": "RUN as root on the host, drained before",
    "shell": "RUN on the host",
    "python": "CHANGE in the run's program",
    "config": "CHANGE in the settings of the run's software",
}


@dataclass(frozen=True, slots=True)
class Listed:
    """The recommendations of a period, those that save most first, with what they are read by.

    `everything` lists also what is held back and what is instead of another; `part` is of which runs alone they are.
    """

    period: Period
    advice: tuple[Recommendation, ...]
    currency: str
    fleet: tuple[Sku, ...] = ()
    everything: bool = False
    part: LedgerFilter = WHOLE

    @property
    def standing(self) -> list[Recommendation]:
        """Those that are recommended now."""
        return [one for one in self.advice if one.stands]


def recommendations_text(listed: Listed, layout: TextLayout, top: int | None = None) -> str:
    """Return the list, those that save most first, with their sum; what is left out is counted."""
    kind = "week" if "-W" in listed.period.label else "period"
    standing = listed.standing
    if not standing and not (listed.everything and listed.advice):
        return layout.page([*_none(listed, kind, layout)])
    title = f"{counted(len(standing), 'recommendation')}{_whose(listed)}, {kind} {listed.period.label}"
    over = saved_over(standing)
    *found, last = layout.wrap(title, "")
    found += [*layout.ends(last, savings_head(standing)), ""]
    shown = [one for one in standing if top is not None or not _is_small(one)][:top]
    amounts, together = saving_column(shown, listed.currency) if shown else ([], "")
    found += _entries(list(zip(shown, amounts, strict=True)), listed.currency, layout)
    if len(shown) > 1 and together:
        bill = bill_words(shown, listed.fleet, listed.currency, listed.period.timezone)
        found += ["", *layout.wrap(f"Together {together} {over}: {bill}")]
    found += ["", *left] if (left := _left_out(listed, len(standing) - len(shown), top, layout)) else []
    if listed.everything:
        found += _others(listed, layout)
    following = (shown or listed.advice)[0].id
    return layout.page([*found, "", f"next: gpuledger recommendations show {following}"])


def _none(listed: Listed, kind: str, layout: TextLayout) -> list[str]:
    words = f"no recommendation{_whose(listed)}, {kind} {listed.period.label}: gpuledger findings says what was lost"
    found = layout.wrap(words, "")
    return found + _left_out(listed, 0, None, layout)


def _whose(listed: Listed) -> str:
    return f" for {listed.part.words}" if listed.part else ""


def _entries(rows: list[tuple[Recommendation, str]], currency: str, layout: TextLayout) -> list[str]:
    """Return two lines of each: what, who, how much; and below the range, what moving costs and how sure it is."""
    width = 48 + layout.extra
    titles = {one.id: _title(one, width - 1) for one, _ in rows}
    columns: tuple[TableColumn[tuple[Recommendation, str]], ...] = (
        TableColumn("", lambda row: row[0].id, width=_HANG, align="<"),
        TableColumn("", lambda row: titles[row[0].id][0], width=width, align="<"),
        TableColumn("", lambda row: owner_word(row[0].actor), width=10, align="<"),
        TableColumn("", lambda row: row[1], width=10),
    )
    found = []
    for (one, _), line in zip(rows, paper_lines(columns, rows), strict=True):
        more = [" " * _HANG + rest for rest in titles[one.id][1:]]
        found += [line, *more, *layout.wrap(_range_words(one, currency), " " * _HANG)]
    return found


def _title(one: Recommendation, width: int) -> list[str]:
    text = plain(f"{one.subject}: {one.title}")
    return textwrap.wrap(text, width, max_lines=2, placeholder=" ...", break_on_hyphens=False) or ["-"]


def _range_words(one: Recommendation, currency: str) -> str:
    saves = one.saves_micros
    if saves is not None:
        low, high = (money(each, currency, money_places(saves)) for each in (saves.p20, saves.p80))
    else:
        low, high = gpu_hours(one.saves_milliseconds.p20), f"{gpu_hours(one.saves_milliseconds.p80)} GPU-hours"
    trigger = ", ".join((*one.finding_ids, *one.notice_ids)[:3]) or "the fleet as a whole"
    whose = f"; {plain(one.team)}" if one.team else ""
    return f"{low} to {high}; {cost_short(one, currency)}; confidence: {one.confidence}{whose}; {trigger}"


def _left_out(listed: Listed, small: int, top: int | None, layout: TextLayout) -> list[str]:
    words = []
    if top is None and small > 0:
        least = money(_LEAST_MICROS, listed.currency, 0)
        words.append(f"{small:,} more, each under {least} {saved_over(listed.standing)}: --top {len(listed.standing)}")
    held = sum(one.held_back is not None for one in listed.advice)
    instead = sum(one.held_back is None and one.instead_of is not None for one in listed.advice)
    if not listed.everything and held + instead:
        parts = [f"{held} held back by a guard"] if held else []
        parts += [f"{instead} instead of a better one"] if instead else []
        words.append(f"{', '.join(parts)}: --all says why")
    return [line for word in words for line in layout.wrap(word)]


def _others(listed: Listed, layout: TextLayout) -> list[str]:
    """Return what is not recommended now, each with its reason."""
    others = [one for one in listed.advice if not one.stands]
    found = ["", "NOT NOW"] if others else []
    for one in others:
        found += layout.labelled(one.id, plain(f"{one.subject}: {one.title}"), _HANG)
        found += layout.wrap(standing_words(one), " " * _HANG)
    return found


def _is_small(advice: Recommendation) -> bool:
    return advice.saves_micros is not None and advice.saves_micros.p50 < _LEAST_MICROS


def recommendation_text(advice: Recommendation, currency: str, timezone: str, layout: TextLayout) -> str:
    """Return one recommendation: from, to, why, what it saves and costs, what was checked, and the lines to paste."""
    found = layout.wrap(f"{plain(advice.subject)}: {plain(advice.title)}", f"{advice.id}  ", " " * 8)
    if words := standing_words(advice):
        found += ["", *layout.wrap(f"NOT NOW. {words[0].upper()}{words[1:]}.")]
    found.append("")
    for label, text in recommendation_rows(advice, currency, timezone):
        found += layout.labelled(label, plain_sentence(text))
    if advice.move is not None:
        found += ["", *_moves(advice, layout)]
    if advice.constraints:
        found += ["", "  CHECKED", *_checks(advice, layout)]
    found += _pastes(advice.artefacts, layout.width)
    explain = (
        f"gpuledger findings explain {advice.finding_ids[0]}" if advice.finding_ids else "gpuledger recommendations"
    )
    return layout.page([*found, "", f"next: {explain}"])


def recommendation_rows(advice: Recommendation, currency: str, timezone: str) -> list[tuple[str, str]]:
    """Return what is said of one recommendation, by label; what is not known of it is left out."""
    lines = [
        ("from", advice.from_),
        ("to", advice.to),
        ("why", advice.why),
        ("saves", saves_words(advice, currency)),
        ("", tails_words(advice, currency)),
        ("of that", split_words(advice, currency)),
        ("moving costs", cost_words(advice, currency)),
        ("takes effect", when_words(advice, timezone)),
        ("confidence", advice.confidence + (f": {advice.sure_because}" if advice.sure_because else "")),
        ("latency", latency_words(advice.latency) if advice.latency is not None else ""),
        ("owner", actor_words(advice)),
        ("who gains", advice.winners),
        ("side effects", advice.losers),
        ("based on", ", ".join((*advice.finding_ids, *advice.notice_ids)) or "what the fleet owns and does not use"),
        ("alternatives", alternatives_words(advice, currency)),
    ]
    return [(label, text) for label, text in lines if text]


def _moves(advice: Recommendation, layout: TextLayout) -> list[str]:
    """Return from where to where: on one line each where that is long."""
    if advice.move is None:
        return []
    words = move_words(advice.move)
    if stays(advice.move) or len(words) <= layout.width - 20:
        return layout.labelled("MOVES", words)
    here = place_words(advice.move.from_) if advice.move.from_ is not None else "not placed yet"
    there = place_words(advice.move.to) if advice.move.to is not None else "given back"
    return [*layout.labelled("MOVES", here), *layout.labelled("", f"-> {there}")]


def _checks(advice: Recommendation, layout: TextLayout) -> list[str]:
    found = []
    for check in advice.constraints:
        words = f"{plain_sentence(check.what)}: {plain_sentence(check.told)}"
        found += layout.labelled(HOLDS[check.holds], words, 9, indent=4)
    return found


def _pastes(artefacts: Sequence[Artefact], width: int) -> list[str]:
    """Return the lines to paste, each text below what it is for."""
    found: list[str] = []
    for each in artefacts:
        head = f"  {WHERE[each.form]}"
        if head not in found:
            found += ["", head]
        found += [f"    {line}" for line in folded(each, width - 4)]
    return found
