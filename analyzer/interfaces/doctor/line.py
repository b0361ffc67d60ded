"""One line of the examination: how it is, what that is, and the way out where it is not well."""

from dataclasses import dataclass
from typing import Literal

# bad: somebody must mend it, and the exit code is 1; note: worth knowing; unseen: it could not be looked at from here.
Answer = Literal["ok", "note", "bad", "unseen"]


@dataclass(frozen=True, slots=True)
class Line:
    """What was looked at, and how it is."""

    answer: Answer
    what: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Lines of one subject."""

    name: str
    lines: tuple[Line, ...]
