"""Recommendations as files: lines for Slurm, a patch for Kubernetes, a ticket in Markdown, a table in CSV, a schema."""

import json
import re
from collections.abc import Sequence

from pydantic import TypeAdapter

from analyzer.errors import LedgerError
from analyzer.interfaces.text.recommendation_text import Listed, recommendation_rows
from analyzer.interfaces.text.savings_text import bill_words, saved_over, saving_column, savings_head
from analyzer.recommendations.recommendation import Artefact, Form, Range, Recommendation
from analyzer.reports.recommendation_words import HOLDS, actor_words, move_words, standing_words
from analyzer.text.table import csv_text
from analyzer.text.words import plain, plain_sentence

# Whose lines go into which file as they are; what belongs into the run's own program follows as comments.
LINES: dict[str, tuple[Form, ...]] = {"slurm": ("slurm", "rankfile", "mig", "shell"), "kubernetes": ("kubernetes",)}
_PROGRAM: tuple[Form, ...] = ("python", "config")
_FENCES: dict[Form, str] = {
    "slurm": "bash",
    "kubernetes": "yaml",
    "rankfile": "bash",
    "mig": "bash",
    "shell": "bash",
    "python": "python",
    "config": "text",
}
_MARKS = re.compile(r"([\\`*_{}\[\]<>|#~])")
COLUMNS = (
    "id", "kind", "subject", "title", "team", "actor", "confidence", "finding_ids", "notice_ids", "takes_effect",
    "saves_milliseconds_p5", "saves_milliseconds_p20", "saves_milliseconds_p50", "saves_milliseconds_p80",
    "saves_milliseconds_p95", "saves_micros_p5", "saves_micros_p20", "saves_micros_p50", "saves_micros_p80",
    "saves_micros_p95", "freed_micros_p50", "billed_micros_p50", "cost_to_move_milliseconds", "cost_to_move_micros",
    "currency", "expires_at", "held_back", "instead_of", "saves_over_seconds",
)  # fmt: skip


def lines_file(advice: Recommendation, form: str) -> str:
    """Return just the lines to paste, for slurm or kubernetes; comments say what they are.

    Raises:
        LedgerError: it has none of that form.
    """
    own = [each for each in advice.artefacts if each.form in LINES[form]]
    if not own:
        others = ", ".join(dict.fromkeys(each.form for each in advice.artefacts)) or "nothing to paste"
        raise LedgerError(
            f"{advice.id} has no lines for {form}; it has {others}: gpuledger recommendations show {advice.id}"
        )
    head = [f"# {advice.id}  {plain(advice.subject)}: {plain(advice.title)}"]
    if words := standing_words(advice):
        head.append(f"# not now; {words}")
    body = [line for each in own for line in ("", *map(_plain_line, each.text.splitlines()))]
    return "\n".join([*head, *body[1:], *_program(advice.artefacts)]) + "\n"


def _plain_line(line: str) -> str:
    """Return a line to paste without control characters, however long; its indentation stays."""
    return "".join(character if character.isprintable() else "?" for character in line)


def _program(artefacts: Sequence[Artefact]) -> list[str]:
    own = [line for each in artefacts if each.form in _PROGRAM for line in each.text.splitlines()]
    return (
        ["", "# and in the run's own program or settings:", *(f"#   {_plain_line(line)}" for line in own)]
        if own
        else []
    )


def ticket(advice: Recommendation, currency: str, timezone: str) -> str:
    """Return one recommendation as Markdown for an issue tracker."""
    found = [f"## {_md(advice.subject)}: {_md(advice.title)} ({advice.id})", ""]
    if words := standing_words(advice):
        found += [f"**Not now**: {_md(words)}.", ""]
    rows = recommendation_rows(advice, currency, timezone)
    if advice.move is not None:
        rows.insert([label for label, _ in rows].index("owner"), ("moves", move_words(advice.move)))
    found += ["| | |", "|---|---|", *(f"| {label.capitalize()} | {_md(text)} |" for label, text in rows)]
    if advice.constraints:
        found += ["", "**Checked**", ""]
        found += [f"- {HOLDS[check.holds]}: {_md(check.what)}: {_md(check.told)}" for check in advice.constraints]
    for each in advice.artefacts:
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", each.text)), default=0))
        lines = [_plain_line(line) for line in each.text.splitlines()]
        found += ["", f"**{_heading(each.form)}**", "", f"{fence}{_FENCES[each.form]}", *lines, fence]
    return "\n".join(found) + "\n"


def _heading(form: Form) -> str:
    words: dict[Form, str] = {
        "mig": "MIG layout",
        "rankfile": "Rank file",
        "python": "In the program",
        "config": "Setting",
    }
    return words.get(form, form.capitalize())


def table(listed: Listed) -> str:
    """Return the list as a table in Markdown, with the sum of what stands."""
    shown = listed.standing
    found = [f"# Recommendations, {_md(listed.period.label)}", ""]
    amounts, together = saving_column(shown, listed.currency) if shown else ([], "")
    if shown:
        found += [f"| id | what | owner | confidence | {savings_head(shown)} |", "|---|---|---|---|---:|"]
        for one, amount in zip(shown, amounts, strict=True):
            what, who = _md(f"{one.subject}: {one.title}"), _md(actor_words(one))
            found.append(f"| {one.id} | {what} | {who} | {one.confidence} | {amount} |")
        bill = bill_words(shown, listed.fleet, listed.currency, listed.period.timezone)
        found += ["", f"Together {together} {saved_over(shown)}: {_md(bill)}"] if together else []
    others = [one for one in listed.advice if not one.stands] if listed.everything else []
    if others:
        found += ["", "## Not now", ""]
        found += [f"- {one.id} {_md(one.subject)}: {_md(one.title)} ({_md(standing_words(one))})" for one in others]
    return "\n".join(found) + "\n"


def _md(text: str) -> str:
    """Return a text in which nothing is Markdown: names are their users'."""
    return _MARKS.sub(r"\\\1", plain_sentence(text))


def spreadsheet(listed: Listed) -> str:
    """Return the list as CSV, exact. Cells that a spreadsheet would take for formulas are quoted."""
    shown = listed.advice if listed.everything else listed.standing
    return csv_text(COLUMNS, sheet_rows(shown, listed.currency))


def sheet_rows(shown: Sequence[Recommendation], currency: str) -> list[list[object]]:
    """Return a row of COLUMNS of each."""
    return [_row(one, currency) for one in shown]


def _row(one: Recommendation, currency: str) -> list[object]:
    freed = one.freed.micros.p50 if one.freed is not None and one.freed.micros is not None else None
    billed = one.billed.micros.p50 if one.billed is not None and one.billed.micros is not None else None
    return [
        one.id, one.kind, one.subject, one.title, one.team, one.actor, one.confidence, " ".join(one.finding_ids),
        " ".join(one.notice_ids), one.takes_effect, *_quantiles(one.saves_milliseconds), *_quantiles(one.saves_micros),
        freed, billed, one.cost_to_move_milliseconds, one.cost_to_move_micros, currency, one.expires_at,
        one.held_back, one.instead_of, one.saves_over_seconds,
    ]  # fmt: skip


def _quantiles(saves: Range | None) -> list[int | None]:
    return [None] * 5 if saves is None else [saves.p5, saves.p20, saves.p50, saves.p80, saves.p95]


def schema_text() -> str:
    """Return the schema of one recommendation as commands and the API write it."""
    schema = TypeAdapter(Recommendation).json_schema(mode="serialization", by_alias=True)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A recommendation of gpuledger"}
    return json.dumps(head | {name: part for name, part in schema.items() if name not in head}, indent=2) + "\n"
