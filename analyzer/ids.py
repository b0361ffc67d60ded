"""Short ids that a person can type: the same thing keeps its id from week to week."""

import hashlib

# No i, l, o, u, 0, 1: what is read aloud or off a screen is not mistaken.
_LETTERS = "abcdefghjkmnpqrstvwxyz23456789"
LENGTH = 4


def short_id(prefix: str, *parts: str) -> str:
    """Return an id such as f-7kq2, made of what the thing is and nothing else."""
    number = int.from_bytes(hashlib.sha256("\x1f".join(parts).encode()).digest()[:8], "big")
    letters = []
    for _ in range(LENGTH):
        number, digit = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[digit])
    return f"{prefix}-{''.join(letters)}"
