"""Which model a run trains, tunes or serves: by dated rules, else its label, else what its server says. Never guessed.

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

from dataclasses import dataclass
from pathlib import Path

from analyzer.ledger.teams import CONDITIONS, RunIdentity, Terms, fits
from analyzer.settings.settings import Settings
from analyzer.settings.toml_model import read_rows, toml_file

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
