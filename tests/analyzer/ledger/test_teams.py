"""A run is a team's where a dated rule says so, and unmapped otherwise."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.ledger.teams import RunIdentity, TeamBook
from analyzer.queries.ledger_query import labels_of

RULES = """
[[rule]]
team = "team-nlp"
cost_centre = "4711"
account = "nlp*"
from = 2026-01-01

[[rule]]
team = "team-asr"
labels = { stage = "asr-*" }
queue = "interactive"
from = 2026-01-01

[[rule]]
team = "team-kube"
namespace = "search"
from = 2026-01-01

[[rule]]
team = "team-nlp-old"
account = "nlp*"
from = 2025-01-01
until = 2026-01-01
"""


def book(tmp_path: Path, text: str = RULES) -> TeamBook:
    """Read a teams file of this text."""
    path = tmp_path / "teams.toml"
    path.write_text(text)
    return TeamBook.read(path)


def run(day: str = "2026-11-09", run_id: str = "slurm/alpha/1", **said: object) -> RunIdentity:
    """Make a run that says this of itself."""
    at_us = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 1_000_000
    return RunIdentity(run_id, at_us, **said)  # type: ignore[arg-type]


def team(book: TeamBook, identity: RunIdentity) -> str | None:
    """Return the name of the run's team."""
    found = book.team_of(identity)
    return found.name if found else None


def test_the_first_rule_that_fits_wins(tmp_path: Path) -> None:
    """An order that people can read beats a score that they cannot."""
    both = run(account="nlp-prod", queue="interactive", labels={"stage": "asr-train"})
    assert team(book(tmp_path), both) == "team-nlp"


def test_every_condition_must_fit(tmp_path: Path) -> None:
    """A rule with two conditions means both."""
    teams = book(tmp_path)
    assert team(teams, run(queue="interactive", labels={"stage": "asr-train"})) == "team-asr"
    assert team(teams, run(queue="batch", labels={"stage": "asr-train"})) is None
    assert team(teams, run(queue="interactive")) is None


def test_rules_are_dated(tmp_path: Path) -> None:
    """Last year's money stays with last year's team."""
    teams = book(tmp_path)
    assert team(teams, run("2025-12-31", account="nlp")) == "team-nlp-old"
    assert team(teams, run("2026-01-01", account="nlp")) == "team-nlp"
    assert team(teams, run("2024-12-31", account="nlp")) is None


def test_a_namespace_is_kubernetes(tmp_path: Path) -> None:
    """A Slurm account that happens to bear a namespace's name is another thing."""
    teams = book(tmp_path)
    assert team(teams, run(run_id="kubernetes/prod/u-1", account="search")) == "team-kube"
    assert team(teams, run(run_id="slurm/alpha/1", account="search")) is None


def test_what_nobody_said_fits_no_pattern(tmp_path: Path) -> None:
    """Not even "*": unmapped is a row that people see, not the first rule's."""
    teams = book(tmp_path, '[[rule]]\nteam = "all"\naccount = "*"\nfrom = 2020-01-01\n')
    assert team(teams, run()) is None
    assert team(teams, run(account="any")) == "all"
    assert TeamBook().team_of(run(account="any")) is None


def test_the_cost_centre_and_the_version_travel(tmp_path: Path) -> None:
    """The ledger records which rules named the team."""
    teams = book(tmp_path)
    found = teams.team_of(run(account="nlp"))
    assert found is not None
    assert found.cost_centre == "4711"
    assert len(teams.version) == 12
    assert book(tmp_path, RULES.replace("4711", "4712")).version != teams.version


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rules]]\n", "did you mean 'rule'"),
        ('[[rule]]\nteam = "a"\nfrom = 2026-01-01\n', "a rule needs one of account"),
        ('[[rule]]\naccount = "a"\nfrom = 2026-01-01\n', "'team' is missing"),
        ('[[rule]]\nteam = "a"\naccount = "a"\n', "'from' is missing"),
        ('[[rule]]\nteam = "a"\nacount = "a"\nfrom = 2026-01-01\n', "did you mean 'account'"),
        ('[[rule]]\nteam = "a"\nlabels = "x"\nfrom = 2026-01-01\n', "'labels' must be a table"),
    ],
)
def test_a_wrong_rule_is_refused_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    """A rule that silently never fits books a team's cost to nobody."""
    with pytest.raises(ConfigError) as refusal:
        book(tmp_path, text)
    assert message in str(refusal.value)


def test_broken_labels_are_no_labels() -> None:
    """They come from the outside; a broken one must not stop the ledger."""
    assert labels_of('{"stage": "train", "n": 3}') == {"stage": "train", "n": "3"}
    assert labels_of(None) == labels_of("[1]") == labels_of("{") == {}
