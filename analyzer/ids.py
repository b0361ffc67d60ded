"""Short ids that a person can type: the same thing keeps its id from week to week.

Thirty letters to the fifth are 24.3 million. Of 10,000 findings one shares its five letters with another of them with a
chance of 9,999 in 24.3 million, which is 1 in 2,430; some two pairs among all of them do (10,000 x 9,999 / 2 / 24.3
million = 2.06). Four letters would be shared by 1 in 81. That no two ever do is left to no chance: of findings that
would share an id, the later one takes another letter (analyzer/findings/life.py). More letters begin with the
fewer, so that an id that was written down when ids had four is the beginning of today's, and is found by it.
"""

import hashlib
from collections.abc import Iterable
from typing import Protocol, TypeVar

from analyzer.errors import LedgerError

# No i, l, o, u, 0, 1: what is read aloud or off a screen is not mistaken.
_LETTERS = "abcdefghjkmnpqrstvwxyz23456789"
LENGTH = 5
LONGEST = 13  # as many letters as eight bytes of the digest fill
TYPED_LEAST = 4  # letters of a beginning that may stand for the whole: as many as ids had before


class Named(Protocol):
    """Anything with an id."""

    @property
    def id(self) -> str:
        """Its short id."""


N = TypeVar("N", bound=Named)


def short_id(prefix: str, *parts: str, length: int = LENGTH) -> str:
    """Return an id such as f-7kq2x, made of what the thing is and nothing else."""
    number = int.from_bytes(hashlib.sha256("\x1f".join(parts).encode()).digest()[:8], "big")
    letters = []
    for _ in range(length):
        number, digit = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[digit])
    return f"{prefix}-{''.join(letters)}"


def pattern(prefix: str) -> str:
    """Return the pattern of the ids of a kind, and of beginnings of them that may be typed."""
    return f"^{prefix}-[a-z2-9]{{{TYPED_LEAST},{LONGEST}}}$"


def by_id(among: Iterable[N], typed: str, absent: str) -> N:
    """Return what a person means: the one of this very id, else the only one whose id begins with what was typed.

    Raises:
        LedgerError: there is none, which `absent` says in one sentence, or there are several.
    """
    known = {one.id: one for one in among}
    if typed in known:
        return known[typed]
    letters = typed.partition("-")[2]
    begin = sorted(one for one in known if one.startswith(typed)) if len(letters) >= TYPED_LEAST else []
    if len(begin) > 1:
        raise LedgerError(f"{typed!r} may be {' or '.join(begin)}: type one more letter")
    if not begin:
        raise LedgerError(absent)
    return known[begin[0]]
