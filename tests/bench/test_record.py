"""Documents and tests read bench/results: a bench that somebody ran for a look must leave them as they are."""

import argparse
import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import machine
from bench.machine import ROOT, add_record, keep, kept

BENCH = ROOT / "bench"
OF_RESULTS = re.compile(r"(^|/)results(/|$)")


def documented(tree: ast.Module) -> set[int]:
    """Return the nodes that are docstrings."""
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body[0] for node in ast.walk(tree) if isinstance(node, holders) and node.body]
    return {id(first.value) for first in bodies if isinstance(first, ast.Expr)}


def ways_to_results(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that name the folder of the results."""
    docstrings = documented(tree)
    of_a_path = [node for node in ast.walk(tree) if isinstance(node, (ast.BinOp, ast.Call, ast.JoinedStr))]
    words = {id(inner) for node in of_a_path for inner in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            named = OF_RESULTS.search(node.value) and (id(node) in words or "/" in node.value)
        else:
            names = [
                getattr(node, field, None) for field in ("id", "attr", "name")
            ]  # of a name, an attribute, an import
            named = "RESULTS" in names or "_place" in names
        if named:
            yield node.lineno  # type: ignore[attr-defined]


def test_a_bench_knows_no_way_to_the_results_but_keep() -> None:
    """Only bench/machine.py names the folder; all others hand their numbers to `keep`, with what --record said."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted(BENCH.rglob("*.py"))
        if path != BENCH / "machine.py"
        for text in [path.read_text("utf-8")]
        if any(word in text for word in ("results", "RESULTS", "_place"))  # to parse all would take seconds
        for line in ways_to_results(ast.parse(text))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "line",
    [
        'RAW = Path(__file__).parent / "results" / "real.json"',
        'parser.add_argument("--results", type=Path, default=RESULTS / "real.json")',
        "from bench.machine import RESULTS",
        'machine.RESULTS.joinpath("real.json").write_text("")',
        'open("bench/results/real.json", "w")',
        'open(f"bench/results/{name}.json", "w")',
        'machine._place("real", record=True).write_text("")',
    ],
)
def test_the_ways_that_there_were_would_be_found(line: str) -> None:
    """The check above must be able to fail."""
    assert list(ways_to_results(ast.parse(line)))


def test_results_of_another_kind_are_no_way() -> None:
    """A key of what is kept may be called so."""
    assert (
        list(ways_to_results(ast.parse('"""Read bench/results."""\nkeep("tsdb", {"results": 1}, record=record)'))) == []
    )


def test_nothing_is_recorded_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --record the numbers are kept where git ignores them, and are found there again."""
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    monkeypatch.setattr(machine, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(machine, "UNRECORDED", tmp_path / "unrecorded")
    parser = argparse.ArgumentParser()
    add_record(parser)
    keep("real", {"as": "measured"}, record=parser.parse_args(["--record"]).record)
    keep("real", {"as": "looked at"}, record=parser.parse_args([]).record)
    assert (kept("real"), kept("real", record=False)) == ({"as": "measured"}, {"as": "looked at"})
    assert [each.name for each in (tmp_path / "results").iterdir()] == ["real.json"]
    assert kept("unknown") is None


def test_it_is_said_where_the_numbers_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who looked for them in bench/results is told how they get there."""
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    monkeypatch.setattr(machine, "UNRECORDED", tmp_path / "unrecorded")
    keep("stages", [["a", "b", 1]], record=False)
    assert capsys.readouterr().out == "raw numbers: unrecorded/stages.json; --record puts them into bench/results\n"
    assert json.loads((tmp_path / "unrecorded" / "stages.json").read_text()) == [["a", "b", 1]]


def test_git_ignores_what_is_not_recorded() -> None:
    """Or the next commit would carry a look along."""
    folder = machine.UNRECORDED.relative_to(ROOT).as_posix()
    assert f"/{folder}/" in (ROOT / ".gitignore").read_text().splitlines()
