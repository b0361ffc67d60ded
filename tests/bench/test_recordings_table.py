"""The README's tables come from the raw numbers, and say which bars were not kept."""

import json
from pathlib import Path

import pytest

from bench.machine import RESULTS
from bench.truth.real.checks import at_least, at_most, missed, within
from bench.truth.real.table import put, table

README = Path(__file__).parents[2] / "bench" / "README.md"
FOUND = json.loads((RESULTS / "real.json").read_text())


def test_the_readme_is_written_from_the_results() -> None:
    """Nothing in the tables was typed: made anew from the file they are the same."""
    text = README.read_text()
    assert put(text, table(FOUND)) == text


def test_every_bar_that_is_not_kept_is_listed() -> None:
    """A table that shows only what went well would be no measurement."""
    listed = table(FOUND)
    not_kept = [check for check in FOUND["checks"] if not check["kept"]]
    assert all(f"- {check['name']}: " in listed for check in not_kept)
    assert f"{len(FOUND['checks']) - len(not_kept)} of {len(FOUND['checks'])} bars are kept" in listed


def test_what_was_asked_for_stands_apart_from_what_we_added() -> None:
    """A bar of ours that is missed must not hide in what was asked for, nor the other way round."""
    asked, added = table(FOUND).split("Added, not kept:")
    for check in FOUND["checks"]:
        if not check["kept"]:
            assert (f"- {check['name']}: " in asked) is check["asked"]
            assert (f"- {check['name']}: " in added) is not check["asked"]


def test_put_leaves_the_rest_of_a_document_alone() -> None:
    """What stands around the section is somebody else's; a document without one is our mistake."""
    assert put("a\n<!-- real -->\nold\n<!-- end -->\nb", "new\n") == "a\n<!-- real -->\nnew\n<!-- end -->\nb"
    with pytest.raises(AssertionError):
        put("nothing here", "new")


def test_what_is_unknown_keeps_no_bar() -> None:
    """A check that could not be made is missed, never passed over."""
    checks = [within("a", None, 1, 1), at_least("b", None, 0), at_most("c", None, 9)]
    assert missed(checks) == checks
    assert missed([within("a", 1.5, 1, 0.5), at_least("b", 0, 0), at_most("c", 9, 9)]) == []
    assert checks[0].line() == "MISSED (added): a: nothing (bar: 1 ± 1)"
