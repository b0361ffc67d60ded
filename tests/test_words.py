"""What people read is said in one vocabulary: phrases that it replaced stand in nothing that is shown.

Looked at are the strings of the product (not its docstrings), its templates and words kept as data, the documents, the
boards and alerts of Grafana and Prometheus, and the golden files, which hold what was printed. State ids, keys and
columns are data and stay as they are.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.test_architecture import nodes_of

ROOT = Path(__file__).parent.parent
ROOMS = ("agent", "simulator", "collector", "analyzer", "dashboards")

# What is said, and the phrases that it replaced. Small letters are what people read; capitals are read as well where a
# phrase heads a table.
REPLACED = {
    "input starvation": r"\b[Ww]aiting for input\b",
    "idle allocation and its kinds": r"\b[Ii]dle while held\b|: memory held\b|\bGPU never used\b",
    "stragglers, communication": r"\b[Ss]lowest rank\b|\b[Ww]aiting for peers\b",
    "underutilized, throttling, lost work": r"\bbusy, underused\b|\bpower or heat\b|\bwork lost\b",
    "top recommendations, do this first": r"\b[Ww]orth doing\b|\bWORTH DOING\b|\b[Bb]est next step\b",
    "owner, side effects": r"\b[Ww]ho can act\b|\b[Ww]ho loses\b|\b[Cc]an act:",
    "estimated weekly savings (median)": r"\ba week, P50\b|\bSAVES A WEEK\b",
    "estimated waste": r"\b[Aa]t stake\b|\bAT STAKE\b",
    "accuracy: no feedback yet": r"\b[Oo]ur record\b|\bnone judged yet\b",
    "this is wrong if": r"^ *[Ww]rong if\b",
    "insufficient data": r"\bnot judged\b|\bNot judged\b|\bNOT JUDGED\b",
    "observations (no cost counted)": r"\b[Ww]orth a look\b|\bWORTH A LOOK\b",
    "measured with": r"^ *[Bb]y what(:| {2,})",
    "price list": r"\bbook [0-9a-f]{12}\b|\bbook of 20\d\d\b",
    "not reconciled with an invoice": r"\binvoice not yet matched\b",
    "no complete previous period to compare with": r"\bnothing to hold it to\b",
    "colored by its dominant state": r"\btold by what it did most\b",
    "as nvidia-smi reports it": r"\bin the driver's sense\b",
    "override": r"\b[Ww]aive[ds]?\b(?! gate)|\bWAIVED\b",
    "budgets and forecast, spend to date": r"\b[Ww]hat a month may cost\b|\b[Cc]ourse of the month\b",
    "unit economics": r"\b[Ww]hat work costs\b",
    "issues, last seen": r"\bneeds? mending\b|\b[Hh]eard within\b",
    "maintenance": r"\bthe upkeep\b|\bUpkeep\b",
    "preliminary, final on …": r"\bprovisional, closes\b|\b[Pp]rovisional\b(?![',\"])",
    "14.1%": r"\d %(?![\w(%{}])",
    "retry in a few seconds": r"\bcome again (in|later|soon)\b|\bagain in a moment\b",
}
# Words that are data in files and stores that people have, by file.
KEPT = {
    ("analyzer/findings/words.toml", "busy, underused"),  # how stored rules are called
    ("analyzer/findings/words.toml", "waiting for input"),
    ("analyzer/findings/words.toml", "work lost"),
    ("analyzer/ledger/coverage.py", "busy, underused"),
    ("analyzer/ledger/coverage.py", "waiting for input"),
    ("analyzer/capacity/gate/gates.toml", "waive"),  # its text is what a policy's digest is made of
    ("analyzer/capacity/gate/gates.toml", "waived"),
    ("gpuledger.py", "waive"),  # how a command was spelled, and its module
    ("docs/openapi.json", "waived"),  # a kind of decision, and its route
    ("docs/openapi.json", "Waived"),
    ("dashboards/templates/request.html", "waived"),
    ("docs/focus.md", "provisional"),  # a value of x_BookStatus
    ("docs/ledger.md", "provisional"),
}
TEXTS = (".html", ".toml", ".md", ".txt", ".js", ".json", ".yaml", ".yml", ".csv")
# Files that are not ours to word, and such that keep the words of others or of an earlier day.
FOREIGN = ("analyzer/charts/plotly.min.js", "LICENSES/", "CHANGELOG.md", "bench/results/", "docs/decisions.md")


def _words(path: Path) -> str:
    """Return the strings of a module, a line each; one of a single word is a key, and none of these."""
    return "\n".join(each for each in _strings(path) if not each.isidentifier())


def _strings(path: Path) -> Iterator[str]:
    """Yield the strings of a module that are not docstrings; of an f-string, its text with {} for values."""
    nodes = nodes_of(path)
    held = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            held |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in held:
            yield node.value


@cache
def shown() -> tuple[tuple[str, str], ...]:
    """Return (file, text) of everything that people read."""
    return tuple(_shown())


def _shown() -> Iterator[tuple[str, str]]:
    for room in (*ROOMS, "docs", "tests/golden"):
        for path in sorted((ROOT / room).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith(FOREIGN) or "__pycache__" in name:
                continue
            if path.suffix == ".py":
                yield name, _words(path)
            elif path.suffix in TEXTS:
                yield name, path.read_text()
    for name in ("README.md", "gpuledger.py"):
        path = ROOT / name
        yield name, _words(path) if path.suffix == ".py" else path.read_text()


@pytest.mark.parametrize("said", REPLACED)
def test_a_phrase_that_was_replaced_is_shown_nowhere(said: str) -> None:
    """One vocabulary, the field's; two words for one thing are two things to a reader."""
    pattern = re.compile(REPLACED[said], re.MULTILINE)
    found = [
        f"{name}: {text[max(0, match.start() - 30) : match.end() + 30]!r}"
        for name, text in shown()
        for match in pattern.finditer(text)
        if (name, match.group()) not in KEPT
    ]
    assert not found, f"say: {said}\n" + "\n".join(found[:40])
