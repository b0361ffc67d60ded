"""What is ready to use of a change: lines of a batch script, a Kubernetes patch, a rank file, a MIG layout."""

from dataclasses import dataclass
from typing import Literal

Form = Literal["slurm", "kubernetes", "rankfile", "mig", "shell", "python", "config"]


@dataclass(frozen=True, slots=True)
class Artefact:
    """One text to paste. `form` says for whom: `config` is a setting of the run's own software."""

    form: Form
    text: str


def shell(text: str) -> Artefact:
    """Return commands for a shell."""
    return Artefact("shell", text)


def python(text: str) -> Artefact:
    """Return lines of the run's own program."""
    return Artefact("python", text)
