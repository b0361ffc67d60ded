"""Whose runs are, and which model they are of: by the site's own rules, else by what schedulers tell.

[[rule]]
    team = "team-nlp"
    cost_centre = "4711"              # optional
    account = "nlp-*"                 # shell patterns; every condition given must fit
    labels = { stage = "train*" }     # optional, as are user, queue, project, name and namespace
    from = 2026-01-01                 # UTC midnight, or a time with offset that is a whole UTC hour
    until = 2026-10-01                # optional, exclusive

The first rule that fits wins. `namespace` is the account of a Kubernetes run, and fits no other.

[[rule]]
    model = "llama-70b"
    name = "pretrain-*"               # shell patterns; every condition given must fit
    served = "/models/llama-70b*"     # what the server of the run calls its model
    labels = { stage = "train*" }     # optional, as are account, namespace, user, queue and project
    from = 2026-01-01                 # UTC midnight, or a time with offset that is a whole UTC hour
    until = 2026-10-01                # optional, exclusive

The first rule that fits wins. A run without a rule has the model of its label `model`; one without that, the one model
that its server says it serves. What is left has no model: a row that people see.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from analyzer.settings.settings import Settings
from analyzer.settings.toml_entry import TomlEntry
from analyzer.settings.toml_model import read_rows, since, toml_file, toml_key, until

CONDITIONS = ("account", "namespace", "user", "queue", "project", "name")


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What a run says of whose it is. None where its scheduler did not report it; None fits no pattern."""

    run_id: str
    at_us: int  # when it was asked for or taken: which rules were in force
    account: str | None = None
    user: str | None = None
    queue: str | None = None
    project: str | None = None
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def namespace(self) -> str | None:
        """The account of a Kubernetes run."""
        return self.account if self.run_id.startswith("kubernetes/") else None


@dataclass(frozen=True, slots=True)
class Team:
    """A team's name and where its cost is booked."""

    name: str = field(metadata=toml_key("team"))
    cost_centre: str | None


def patterns_of(entry: TomlEntry, _: str) -> dict[str, str]:
    """Return the conditions of a row by what they are about."""
    return {key: text for key in CONDITIONS if (text := entry.text_or_none(key)) is not None}


@dataclass(frozen=True, slots=True)
class Terms:
    """Which runs a dated rule is about: those of its time that fit every pattern."""

    patterns: Mapping[str, str] = field(metadata=toml_key(*CONDITIONS, read=patterns_of))
    labels: Mapping[str, str]
    starts_at: int = field(metadata=since())
    ends_at: int | None = field(metadata=until())

    def fits(self, run: RunIdentity) -> bool:
        """Say whether the rule was in force and every one of its patterns fits."""
        if run.at_us < self.starts_at or (self.ends_at is not None and run.at_us >= self.ends_at):
            return False
        return fits_all(run, self.patterns, self.labels)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: a run that fits its terms is the team's."""

    team: Team
    terms: Terms

    def __post_init__(self) -> None:
        if not self.terms.patterns and not self.terms.labels:
            raise ValueError(f"a rule needs one of {', '.join(CONDITIONS)} or labels; '*' fits any value")


@dataclass(frozen=True, slots=True)
class TeamBook:
    """All rules in the file's order, and a digest of them that the ledger records."""

    rules: tuple[Rule, ...] = ()
    version: str = ""

    @classmethod
    def read(cls, path: Path) -> "TeamBook":
        """Read a teams file.

        Raises:
            ConfigError: the file cannot be read, a key is unknown, or a rule has no team, date or condition.
        """
        with toml_file(path, ("rule",)) as (file, mistakes):
            rules = read_rows(file, "rule", Rule, mistakes)
        lines = json.dumps([asdict(rule) for rule in rules], sort_keys=True)
        return cls(rules, hashlib.sha256(lines.encode()).hexdigest()[:12])

    def team_of(self, run: RunIdentity) -> Team | None:
        """Return the team of the first rule that fits, or None: unmapped."""
        return next((rule.team for rule in self.rules if rule.terms.fits(run)), None)


def fits_all(run: RunIdentity, patterns: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Say whether every pattern fits what the run says of itself, and every label's what it is labelled."""
    own = all(fits(getattr(run, key), pattern) for key, pattern in patterns.items())
    return own and all(fits(run.labels.get(key), pattern) for key, pattern in labels.items())


def fits(value: str | None, pattern: str) -> bool:
    """Say whether what a run says fits a shell pattern; None fits none."""
    return value is not None and fnmatchcase(value, pattern)


def team_book(settings: Settings) -> TeamBook:
    """Read the teams file of a site's settings; without one, nobody is mapped.

    Raises:
        ConfigError: the file cannot be read.
    """
    return TeamBook() if settings.teams is None else TeamBook.read(settings.teams)


_LABEL = "model"
_NO_MODEL = frozenset({"", "none"})  # what people write where there is none


@dataclass(frozen=True, slots=True)
class ModelRule:
    """One rule: a run that fits its terms, and whose server says what fits `served`, is of the model."""

    model: str
    terms: Terms
    served: str | None

    def __post_init__(self) -> None:
        if not self.terms.patterns and not self.terms.labels and self.served is None:
            raise ValueError(f"a rule needs one of {', '.join(CONDITIONS)}, labels or served; '*' fits any value")

    def fits(self, run: RunIdentity, served: str | None) -> bool:
        """Say whether the rule is about this run."""
        return self.terms.fits(run) and (self.served is None or fits(served, self.served))


@dataclass(frozen=True, slots=True)
class ModelBook:
    """All rules in the file's order."""

    rules: tuple[ModelRule, ...] = ()

    @classmethod
    def read(cls, path: Path) -> "ModelBook":
        """Read a models file.

        Raises:
            ConfigError: the file cannot be read, a key is unknown, or a rule has no model, date or condition.
        """
        with toml_file(path, ("rule",)) as (file, mistakes):
            rules = read_rows(file, "rule", ModelRule, mistakes)
        return cls(rules)

    def model_of(self, run: RunIdentity, served: str | None) -> str | None:
        """Return the model of a run whose server says that it serves `served`, or None: no model is named."""
        told = next((rule.model for rule in self.rules if rule.fits(run, served)), None)
        return told or next((name for name in (run.labels.get(_LABEL), served) if _is_named(name)), None)


def _is_named(name: str | None) -> bool:
    return name is not None and name.strip().lower() not in _NO_MODEL


def model_book(settings: Settings) -> ModelBook:
    """Read the models file of a site's settings; without one, labels and servers alone name models.

    Raises:
        ConfigError: the file cannot be read.
    """
    return ModelBook() if settings.models is None else ModelBook.read(settings.models)
