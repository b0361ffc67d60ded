"""How our processes load what they are there for: sooner than Python does, and to the same effect."""

import dataclasses
import importlib
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from agent import child

SOURCE = """
from dataclasses import dataclass, field
from functools import cached_property

@dataclass
class Open:
    a: int
    b: list = field(default_factory=list, compare=False)

@dataclass(frozen=True, slots=True, order=True)
class Closed:
    a: int
    b: str = field(default="x", repr=False)

@dataclass(frozen=True, slots=True)
class Derived(Closed):
    c: float = 0.0

@dataclass(frozen=True)
class Remembering:
    a: int
    @cached_property
    def twice(self): return 2 * self.a

@dataclass(eq=False)
class Itself:
    a: int

@dataclass
class Own:
    a: int
    def __eq__(self, other): return True
    def __repr__(self): return "own"

@dataclass
class Round:
    other: object = None
"""
# What is asked of each pair of values, twice: first it is compiled, then it is there.
ASKED = (
    repr,
    hash,
    lambda one: one == one,
    lambda one: one < one,
    lambda one: setattr(one, "a", 5),
    lambda one: delattr(one, "a"),
    lambda one: setattr(one, "other", one),
    lambda one: one.twice,
    lambda one: dataclasses.replace(one, a=9),
    dataclasses.asdict,
)
MADE = (
    "Open(1, [2])", "Closed(1)", "Closed(1, 'y')", "Derived(1, 'y', 2.0)", "Remembering(3)", "Itself(1)", "Own(1)",
    "Round()",
)  # fmt: skip


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    """Return the same module, imported as any other, and loaded as ours are."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("records_plain", "records_ours"):
        (tmp_path / f"{name}.py").write_text(SOURCE)
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("records_plain"), cast("ModuleType", child.load("records_ours"))


def answers(module: ModuleType) -> list[str]:
    """Return what all that can be made of the module's records answers to all that is asked."""
    records: list[Any] = [eval(made, vars(module)) for made in MADE]
    found = [str(one == other) for one in records for other in records]
    for record in records:
        if type(record).__name__ == "Itself":
            found += [str(record == type(record)(1)), str(hash(record) == object.__hash__(record))]
            continue
        for ask in ASKED * 2:
            try:
                found.append(f"{record!r} {ask(record)}")
            except (TypeError, AttributeError, RecursionError) as error:
                found.append(f"{type(error).__name__}: {error}")
    return [one.replace(module.__name__, "records") for one in found]


def test_records_of_a_loaded_module_are_as_any_others(both: tuple[ModuleType, ModuleType]) -> None:
    """They compare, hash, print and refuse alike; that it is compiled later is nothing that anybody sees."""
    plain, ours = both
    assert answers(ours) == answers(plain)
    assert set(vars(ours)) == set(vars(plain))


def test_what_a_record_was_asked_once_is_compiled(both: tuple[ModuleType, ModuleType]) -> None:
    """From then on it costs what it does anywhere: the rows of a ledger are compared and hashed in large numbers."""
    plain, ours = both
    one, derived = ours.Closed(1), ours.Derived(1)
    assert hash(one) == hash(plain.Closed(1))
    assert {one} == {ours.Closed(1)}
    with pytest.raises(FrozenInstanceError):
        derived.c = 1.0
    for owner, name in (("Closed", "__hash__"), ("Closed", "__eq__"), ("Derived", "__setattr__")):
        code = getattr(getattr(ours, owner), name).__code__
        assert (code.co_filename, code.co_varnames) == (
            "<string>", getattr(getattr(plain, owner), name).__code__.co_varnames
        )  # fmt: skip


def test_python_is_left_as_it_was(both: tuple[ModuleType, ModuleType]) -> None:
    """What others make records of afterwards is none of ours; a module that fails changes nothing either."""
    before = dict(vars(dataclasses))
    with pytest.raises(ModuleNotFoundError):
        child.load("records_nowhere")
    assert dict(vars(dataclasses)) == before
    assert all(getattr(value, "__module__", "") != "agent.child" for value in before.values())
