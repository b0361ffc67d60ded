"""A run's model is what a rule, its label or its server names, in this order; nothing is guessed from anything else."""

import json
from itertools import permutations
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.ledger.teams import ModelBook, RunIdentity
from analyzer.settings.settings import Settings
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Beside, Fleet

RULES = """
[[rule]]
model = "llama-70b"
name = "pretrain-*"
from = 2025-01-01

[[rule]]
model = "qwen"
served = "/models/Qwen*"
from = 2025-01-01
"""
RUN = "slurm/alpha/1"


def book(tmp_path: Path, text: str = RULES) -> ModelBook:
    """Read a models file of this text."""
    path = tmp_path / "models.toml"
    path.write_text(text)
    return ModelBook.read(path)


def run(name: str | None = None, **labels: str) -> RunIdentity:
    """Make a run that says this of itself."""
    return RunIdentity(RUN, MONDAY, name=name, labels=labels)


def test_a_rule_goes_before_a_label_and_a_label_before_the_server(tmp_path: Path) -> None:
    """What the site wrote down corrects what a user labelled, and a label what a server calls a path."""
    models = book(tmp_path)
    assert models.model_of(run("pretrain-7", model="old"), "/srv/x") == "llama-70b"
    assert models.model_of(run("sft", model="mine"), "/srv/x") == "mine"
    assert models.model_of(run("sft"), "/srv/x") == "/srv/x"
    assert models.model_of(run("serve"), "/models/Qwen3-0.6B") == "qwen"
    assert models.model_of(run("serve"), None) is None


@pytest.mark.parametrize("word", ["", "none", "None", " "])
def test_a_label_that_says_none_names_no_model(word: str) -> None:
    """Templates fill every label in; a model called "none" would be a row that nobody can explain."""
    assert ModelBook().model_of(run("notebook", model=word), None) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[rule]]\nmodel = "a"\nfrom = 2026-01-01\n', "labels or served"),
        ('[[rule]]\nname = "a"\nfrom = 2026-01-01\n', "'model' is missing"),
        ('[[rule]]\nmodel = "a"\nname = "a"\n', "'from' is missing"),
        ('[[rule]]\nmodel = "a"\nserves = "a"\nfrom = 2026-01-01\n', "did you mean 'served'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    """A key that is not read is a rule that silently does not hold."""
    with pytest.raises(ConfigError, match=message):
        book(tmp_path, text)


def served(fleet: Fleet, at: int, model: str | None) -> None:
    """Let the run's server say what it serves."""
    row = {"node": "n1", "run_id": RUN, "engine": "vllm", "requests": 5, "model": model}
    fleet.add("service_samples", [row | {"started_at": at, "ended_at": at + MINUTE}])


def model_of(fleet: Fleet, run_id: str = RUN) -> str | None:
    """Return the model that the books have of the run."""
    with fleet.store.session() as session:
        (found,) = session.row("SELECT model FROM runs WHERE run_id = ?", [run_id])
    return None if found is None else str(found)


def service(fleet: Fleet | None = None, **more: object) -> Fleet:
    """Return a service of one GPU."""
    fleet = fleet or Fleet()
    fleet.own("n1", ["g0"])
    fleet.hold(RUN, "n1", ["g0"], MONDAY, MONDAY + 2 * HOUR, **more)
    fleet.sample("n1", "g0", MONDAY, MONDAY + 2 * HOUR)
    return fleet


def test_a_server_names_the_model_of_its_run_and_two_names_name_none_in_whatever_order_they_arrive() -> None:
    """Which of two models a GPU's second went to, no page says: the run's money would be put to one by guess.

    A page that says nothing contradicts nothing. Same input, same books, also where a later pass sees but one name.
    """
    store = Fleet()
    orders = [("llama", None, "qwen"), *sorted(set(permutations(("llama", "qwen", "llama"))))]
    each = [service(Beside(store, f"~{number}")) for number in range(len(orders))]
    known = []
    for number, names in enumerate(zip(*orders, strict=True)):
        for fleet, name in zip(each, names, strict=True):
            served(fleet, MONDAY + number * MINUTE, name)
        store.analyze()
        known.append(model_of(store, f"{RUN}~0"))
    assert known == ["llama", "llama", None]
    store.analyze()
    assert [model_of(store, f"{RUN}~{number}") for number in range(len(orders))] == [None] * 4


def test_labels_and_rules_name_models_in_the_books(tmp_path: Path) -> None:
    """What the file says now counts with the next pass, also of hours that are booked already."""
    fleet = service(labels=json.dumps({"model": "mine"}), user="mira")
    fleet.analyze()
    assert model_of(fleet) == "mine"
    path = tmp_path / "models.toml"
    path.write_text(RULES.replace("pretrain-*", "slurm/alpha/*"))
    fleet.analyze(now=MONDAY + DAY, settings=Settings(models=path))
    assert model_of(fleet) == "llama-70b"
