"""One line of the examination: how it is, what that is, and the way out where it is not well."""

from dataclasses import dataclass
from typing import Literal

# bad: somebody must mend it, and the exit code is 1; note: worth knowing; unseen: it could not be looked at from here.
CheckAnswer = Literal["ok", "note", "bad", "unseen"]


@dataclass(frozen=True, slots=True)
class CheckLine:
    """What was looked at, and how it is."""

    answer: CheckAnswer
    what: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Lines of one subject."""

    name: str
    lines: tuple[CheckLine, ...]
