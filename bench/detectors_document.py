"""docs/detectors.md, made from the rules themselves: `make docs`.

What each rule says and what would prove it wrong are its findings' own words; the numbers and their sources are those
of analyzer/ledger/thresholds.py; how often it was right was counted on labelled fleets (bench/results/truth.json), and
how often its shares were (bench/results/calibration.json).
"""

import ast
import io
import json
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from inspect import getsource
from itertools import groupby
from pathlib import Path
from typing import Any

from analyzer.findings.witness_signs import limit_words, mark_words
from analyzer.findings.words import finding_words, in_tense
from analyzer.ledger.causes.witnesses import (
    BOOKED_PERMILLE,
    DIGEST,
    SURE_PERMILLE,
    TABLE,
    TOGETHER_PERMILLE,
    WITNESSES,
    Row,
)
from analyzer.ledger.thresholds import RULE_OF, SHORT, WORK, Thresholds
from analyzer.states import booking

TITLE = "detectors.md"
UNMEASURED = "not measured"
HEAD = """# Detectors: every rule, its numbers, and how often it was right

Made from the code by `make docs`; do not edit. Rules look at ten-minute windows of a run and book a loss from medium
confidence up; a weaker suspicion stays *low utilization, unexplained*. Of one finding, `gpuledger findings explain`
prints the numbers that were seen beside the marks they had to pass. Observations, which claim no time:
[notices.md](notices.md).

*Right* and *found* are measured on {runs:,} generated runs whose truth no rule has seen (`make bench-truth`): of the
GPU time booked to the state, how much truly was of it (the rest are false positives); and of the time that truly was of
it, how much was booked so. Real telemetry is less kind: bench/README.md tells what was tried on it. "Work" and "own
best" stand for the numbers by which it is told what counts as work at all, and how far a run is below what it reaches.
"""


WITNESSES_HEAD = f"""## Causes and witnesses
What a stand-still waits for is told by one table (`analyzer/ledger/causes/witnesses.py`) and one scorer. A row is a way
in which a cause shows itself; a witness that was not reported speaks for nothing. Numbers in brackets are the decibans
that a value says at the most: 10 is ten to one. A cause is booked from {BOOKED_PERMILLE // 10}% of the posterior on,
with a witness of its own. From {SURE_PERMILLE // 10}% on, for half an hour, and of GPUs whose SM activity is measured,
it is of high confidence. Where all causes of input together have {TOGETHER_PERMILLE // 10}% and none of them is likely
enough to be named, the run is starved, and the cause `unknown`. `own_process`, `decoder`, `turns` and `memory` are
suspected and never booked.
"""


CALIBRATION_HEAD = """### How often a posterior was right
Windows of seeds that no number was tuned on, by the share that the table gave the cause (`make bench-calibration`):
*said* is the mean of those shares, *right* how often the cause was one that may rightly be told. Of *others*, which are
suspected and never booked, bench/truth knows none: there right is what waits for no input. Windows of one run are
alike: of few runs little is known.
"""
OLDER = "\n**Counted before the table was last changed: its shares may mean something else since.**\n"


def page(truth: Mapping[str, object], calibrated: Mapping[str, Any]) -> str:
    """Return the document."""
    cells = _cells(truth)
    right, found = _shares(cells)
    lines = [HEAD.format(runs=sum(int(str(each["runs"])) for each in cells))]
    told = [name for name in RULE_OF if not name.startswith("unexplained/")]
    for state, group in groupby(told, key=lambda name: name.partition("/")[0]):
        names = list(group)
        lines += [f"## `{state}`", f"Right {right.get(state, UNMEASURED)}, found {found.get(state, UNMEASURED)}.", ""]
        lines += ["| cause | it says | wrong if | owner | revision |", "|---|---|---|---|---|"]
        lines += [_row(state, name.partition("/")[2]) for name in names]
        for reads, those in groupby(names, key=lambda name: RULE_OF[name].reads):
            which = "" if len({RULE_OF[name].reads for name in names}) == 1 else f" (`{'`, `'.join(_causes(those))}`)"
            lines += ["", f"Reads{which}: {_reads(reads)}."]
        lines.append("")
    lines += [WITNESSES_HEAD, "| cause | its own witnesses | what speaks against it |", "|---|---|---|"]
    lines += [f"| `{row.cause}` | {_cell_words(row, own=True)} | {_cell_words(row, own=False)} |" for row in TABLE]
    lines += ["", *_calibration(calibrated)]
    lines += ["", "## The numbers", "Shares are permille, times milliseconds.", ""]
    lines += ["| number | value | why, and from where |", "|---|---|---|"]
    lines += [f"| `{name}` | {value} | {why} |" for name, value, why in numbers()]
    return "\n".join(lines) + "\n"


def _cell_words(row: Row, *, own: bool) -> str:
    """Return the witnesses of a row with the values at which they begin to speak, and the decibans that they reach."""
    said = []
    for name, points in row.cells.items():
        least, most = min(says for _, says in points), max(says for _, says in points)
        what = WITNESSES[name].what
        if own and name in row.own:
            said.append(f"{what}: {mark_words(name, points)} (+{most}, else {least})")
        elif not own and name not in row.own and least < 0:
            said.append(f"{what}: not {limit_words(name, points)} ({least})")
    return "; ".join(said) or "-"


def _calibration(calibrated: Mapping[str, Any]) -> list[str]:
    lines = [CALIBRATION_HEAD + (OLDER if calibrated["table"] != DIGEST else "")]
    lines += ["| generated | causes | share | runs | windows | said | right |", "|---|---|---|---|---|---|---|"]
    for row in calibrated["rows"]:
        windows = row["windows"]
        if windows:
            said, right = f"{row['said'] / windows / 10:.0f}%", f"{100 * row['right'] / windows:.0f}%"
            share = f"{row['from'] // 10} to {row['to'] // 10}%"
            lines.append(
                f"| {row['runs']} | {row['causes']} | {share} | {row['of_runs']} | {windows} | {said} | {right} |"
            )
    return lines


def _causes(names: Iterable[str]) -> list[str]:
    return [name.partition("/")[2] for name in names]


def _row(state: str, cause: str) -> str:
    words, actor = finding_words(state, cause), booking(state, cause).actor
    revision = RULE_OF[f"{state}/{cause}"].revision
    said = _sentence(in_tense(words.sentence, past=False))
    return f"| `{cause}` | {said} | {_sentence(words.wrong_if)} | {actor or '-'} | {revision} |"


def numbers() -> list[tuple[str, int, str]]:
    """Return each threshold with its value and the comment that stands above or beside it; none above is "as above"."""
    source = getsource(Thresholds)
    comments = _comments(source)
    defaults = {each.name: each.default for each in fields(Thresholds)}
    found = []
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        block = _above(comments, node.lineno)
        why = comments.get(node.lineno, block or "as the one above")
        found.append((node.target.id, int(str(defaults[node.target.id])), why))
    return found


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}


def _above(comments: Mapping[int, str], line: int) -> str:
    block: list[str] = []
    while (line := line - 1) in comments and not _beside(line):
        block.insert(0, comments[line])
    return " ".join(block)


def _beside(line: int) -> bool:
    """Whether the comment of a line stands beside a number, and so explains that one alone."""
    return not getsource(Thresholds).splitlines()[line - 1].lstrip().startswith("#")


def _reads(names: Iterable[str]) -> str:
    own = [name for name in names if name not in (*WORK, *SHORT)]
    told = ["work"] * set(WORK).issubset(names) + ["own best"] * set(SHORT).issubset(names)
    told += [f"`{name}`" for name in (own if told else names)]
    return ", ".join(told) or "no number: the driver's or the scheduler's word"


def _sentence(text: str) -> str:
    """Return a finding's words with a word for each thing that it fills in."""
    filled = text
    for name, word in {
        "{Run}": "The run", "{run}": "the run", "{for_run}": "", "{place}": "the host", "{gpu}": "",
        "{share}": "for a share of the time", ": {limit}": "", "{limit}": "",
        "at least {speedup}x": "as much as predicted",
    }.items():  # fmt: skip
        filled = filled.replace(name, word)
    return filled


def _cells(truth: Mapping[str, object]) -> list[Mapping[str, object]]:
    cells: Any = truth["cells"]  # of each kind of run its name, its shape, and what was counted
    return [each[-1] for each in cells]


def _shares(cells: Iterable[Mapping[str, object]]) -> tuple[dict[str, str], dict[str, str]]:
    """Return by state how much of what was booked was right, and how much of the truth was found."""
    both, booked, truly = Counter[str](), Counter[str](), Counter[str]()
    for cell in cells:
        confusion: Any = cell["confusion"]
        for pair, ms in confusion.items():
            truth, _, said = pair.partition(">")
            truly[truth] += ms
            booked[said] += ms
            both[truth] += ms if truth == said else 0
    return (
        {state: f"{100 * both[state] / ms:.1f}%" for state, ms in booked.items() if ms},
        {state: f"{100 * both[state] / ms:.1f}%" for state, ms in truly.items() if ms},
    )


if __name__ == "__main__":
    folder, *measured = map(Path, sys.argv[1:])
    (folder / TITLE).write_text(page(*(json.loads(path.read_text("utf-8")) for path in measured)), "utf-8")
