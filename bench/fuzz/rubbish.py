"""What a fuzzer writes over something that was valid: bytes, numbers, texts that break careless readers."""

import random
import struct
from typing import Any

INTEGERS = (-1, 0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
FLOATS = (float("nan"), float("inf"), float("-inf"), -1.0, -0.0, 1e308, 5e-324, 1.0000000001, 2.0**63)
TEXTS = (
    "",
    " ",
    "\0",
    "\x1b[31m",
    "é" * 3000,
    "x" * 5000,
    "'; DROP TABLE gpu_samples; --",
    "\u202e",
    "NaN",
    "../../..",
)
JSON: tuple[Any, ...] = (None, True, -1, 2**63, 2**64, 1e308, float("nan"), "", "\0", "x" * 300, [], {}, [[]], 0.5)
WORDS = (b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\1\0\0\x80", b"\x80\x80\x80\x80", b"\0\0\0\x80")


def bytes_of(content: bytes, dice: random.Random) -> bytes:
    """Return some bytes changed, overwritten, cut out, doubled, or cut off."""
    changed = bytearray(content)
    for _ in range(dice.choice((1, 1, 1, 2, 8))):
        if not changed:
            break
        at, kind = dice.randrange(len(changed)), dice.random()
        if kind < 0.4:
            changed[at] ^= 1 << dice.randrange(8)
        elif kind < 0.75:
            changed[at : at + 4] = dice.choice(WORDS)
        elif kind < 0.85:
            del changed[at : at + dice.randrange(1, 64)]
        elif kind < 0.95:
            changed[at:at] = changed[max(0, at - 32) : at]
        else:
            del changed[at:]
    return bytes(changed)


def eights(content: bytes, start: int, dice: random.Random) -> bytes:
    """Return content with eight aligned bytes, from a place on, as a number that should not be there."""
    changed = bytearray(content)
    places = (len(changed) - start) // 8
    for _ in range(dice.choice((1, 1, 2, 4))):
        if places > 0:
            at = start + 8 * dice.randrange(places)
            whole = dice.random() < 0.5
            number = struct.pack("<q", dice.choice(INTEGERS)) if whole else struct.pack("<d", dice.choice(FLOATS))
            changed[at : at + 8] = number
    return bytes(changed)


def value(kind: str, dice: random.Random) -> Any:  # noqa: ANN401 - of any kind is the point
    """Return a value of an Arrow type of the contract that is at the edge of it, or beyond what can be true."""
    if kind == "string":
        return dice.choice(TEXTS)
    if kind == "bool":
        return dice.choice((True, False, None))
    return dice.choice((None, *(INTEGERS if kind == "int64" else FLOATS)))
