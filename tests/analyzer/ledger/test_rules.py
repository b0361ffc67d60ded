"""Which numbers decide, and that none of them can change without a new version of the rules that read it."""

import ast
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from analyzer import ledger
from analyzer.findings.words import rows
from analyzer.ledger import thresholds
from analyzer.ledger.causes.witnesses import CAUSES, INPUTS
from analyzer.ledger.thresholds import FIXED, RULE_OF, Thresholds

HERE = Path(ledger.__file__).parent
FIELDS = [field.name for field in fields(Thresholds)]
# What names a state that is no finding: what starting consists of, silence, kinds of work; and what notices read.
OF_NO_FINDING = {
    "process_bytes", "image_bytes", "starting_margin_ms", "gap_ms", "foreign_permille", "foreign_millicores",
    "kv_full_permille",
}  # fmt: skip
# Modules of which what they say is booked.
DECIDING = (
    "causes/*.py", "classifier.py", "pending.py", "windows.py", "run_facts.py",
)  # fmt: skip
# Numbers of theirs that decide nothing: units, bounds of settings, and what is part of the version in another way.
NOT_DECIDING = {
    "WINDOW_SECONDS", "FOR_GOOD",  # units, and no end
    "LOOK_AHEAD_US",  # thresholds.LOOK_AHEAD_MS
    "GPUS", "GPU_HOURS", "COLLECTOR", "FOR_EVER",  # how a pass is cut and batches are numbered, and no end
    "CANDIDATES_SHOWN",  # of runs that a word may mean
    "LOOK_BACK_HOURS", "LONGEST_LOOK_BACK_HOURS",  # of a policy, whose rows are in the version
    "CLOSES_AFTER",  # when a week closes changes no second
    "WINDOW_MS",  # thresholds.FIXED
    "NONE_BEHIND", "SEVERAL",  # no lag, and no one rate: such hours are due anew
    "MILLI", "LEAST", "MOST",  # a unit, and beyond which odds nothing changes
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_a_changed_number_changes_the_version_of_all_and_of_who_reads_it(name: str) -> None:
    """Else hours judged by two different numbers would stand beside each other under one name."""
    before = Thresholds()
    after = replace(before, **{name: getattr(before, name) + 1})
    assert after.version != before.version
    changed = {rule for rule, said in after.rule_versions().items() if said != before.rule_versions()[rule]}
    assert changed == {rule for rule, one in RULE_OF.items() if name in one.reads}
    assert bool(changed) is (name not in OF_NO_FINDING)


@pytest.mark.parametrize("name", sorted(FIXED))
def test_what_no_pass_may_vary_is_in_the_version_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release with longer windows must make the ledger anew."""
    before = Thresholds()
    said, own = before.version, before.rule_versions()
    monkeypatch.setattr(thresholds, "FIXED", {**FIXED, name: FIXED[name] + 1})
    assert before.version != said
    assert {rule for rule, version in before.rule_versions().items() if version != own[rule]} == {
        rule for rule, one in RULE_OF.items() if name in one.reads
    }


def test_a_raised_revision_and_a_new_word_change_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that judges otherwise has other findings, though no number of it has changed."""
    limits = Thresholds()
    said = limits.version
    name, rule = next(iter(RULE_OF.items()))
    with monkeypatch.context() as patched:
        patched.setitem(RULE_OF, name, replace(rule, revision=rule.revision + 1))
        assert limits.version != said
        assert limits.rule_versions()[name].startswith(f"{rule.revision + 1}.")
    monkeypatch.setattr(thresholds, "PATTERNS", ("serving kserve",))
    assert limits.version != said


def test_every_finding_has_a_rule_with_a_version() -> None:
    """A finding without one could not be judged against others of its rule."""
    suspicions = {name for name in RULE_OF if name.startswith("unexplained/")}
    assert set(RULE_OF) - suspicions == rows("finding").keys()
    told = {"starved/unknown"}  # by the run's own word: it is never a suspicion
    assert suspicions == {f"unexplained/{cause}" for cause in CAUSES}
    assert {f"starved/{cause}" for cause in INPUTS} | told == {one for one in RULE_OF if one.startswith("starved/")}
    assert {name for rule in RULE_OF.values() for name in rule.reads} <= {*FIELDS, *FIXED}


@pytest.mark.parametrize(
    ("module", "declared"),
    [
        ("input_starvation", tuple(name for name in thresholds.INPUT if name not in FIXED)),
        ("exchange", thresholds.EXCHANGE),
        ("straggler", thresholds.STRAGGLER),
        ("underused", thresholds.UNDERUSED),
    ],
)
def test_what_a_rule_is_said_to_read_is_what_its_detector_reads(module: str, declared: tuple[str, ...]) -> None:
    """A number that a detector reads and its rule does not name would change findings under an old version."""
    tree = ast.parse((HERE / "causes" / f"{module}.py").read_text("utf-8"))
    assert set(declared) == {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "limits"
    }


def _numbers(path: Path) -> Iterator[str]:
    """Yield the names of a module's constants that hold a number: by itself, in a sum or product, or in a tuple."""
    for node in ast.parse(path.read_text("utf-8")).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = getattr(node, "value", None)
        holds = value is not None and any(
            isinstance(part, ast.Constant) and isinstance(part.value, int) and not isinstance(part.value, bool)
            for part in ast.walk(value)
        )
        names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        yield from (name for name in names if holds and name.isupper())


def test_no_number_that_decides_stands_elsewhere() -> None:
    """It would not be in the version: whoever changes it would leave hours of both kinds under one name."""
    paths = [path for glob in DECIDING for path in HERE.glob(glob)]
    assert all(any(HERE.glob(glob)) for glob in DECIDING), "what is looked at is there"
    # The table of witnesses is one page of numbers, whose digest is one of thresholds.FIXED.
    found = {name.lstrip("_") for path in paths if path.stem != "witnesses" for name in _numbers(path)}
    assert found - NOT_DECIDING == set()
