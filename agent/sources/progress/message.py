"""One message of a run: `{"step": 120, "tokens": 1048576, "samples": 512, "requests": 3, "checkpoint": "ckpt-1200"}`.

Every number is a total, of the run since any moment it likes: what counts is by how much it grows. A message that is
lost then costs nothing, and a run that goes on from a checkpoint says so by where it begins.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from agent.wire.bounded import json_said

MESSAGE_BYTES_MAX = 4096
NAME_CHARACTERS_MAX = 128  # of a checkpoint
TOTAL_MAX = 2**53  # beyond it a number of JSON is not whole any more

NUMBERS = {
    "step": "steps",
    "samples": "samples",
    "tokens": "tokens",
    "requests": "requests",
}  # of a message: the column


@dataclass(frozen=True, slots=True)
class Message:
    """What a run said at one moment: totals by column, and the checkpoint that is complete now."""

    totals: Mapping[str, int]
    checkpoint: str | None


def parse(line: bytes) -> Message | None:
    """Return what one message says, or None where it is not one, or says nothing that is known.

    Keys that are not known are passed over, so that a newer run can talk to an older agent; a known key with a value
    that it cannot have spoils the message, since its other numbers are then no better. Pure, and safe on any bytes.
    """
    if len(line) > MESSAGE_BYTES_MAX:
        return None
    try:
        said = json_said(line, parse_constant=_no_number)
        return _message(said) if isinstance(said, dict) else None
    except ValueError:
        return None


def _message(said: Mapping[str, Any]) -> Message | None:
    totals = {column: _total(said[key]) for key, column in NUMBERS.items() if said.get(key) is not None}
    given = said.get("checkpoint")
    checkpoint = None if given is None else _name(given)
    return Message(totals, checkpoint) if totals or checkpoint else None


def _total(value: object) -> int:
    """Return a total; 1e6 is whole, and some languages write it so."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= TOTAL_MAX:
        raise ValueError("not a total")
    return value


def _name(value: object) -> str:
    """Return a checkpoint's name: the last part of its path, since the path may name its owner."""
    if not isinstance(value, str):
        raise ValueError("not a name")
    name = value.rstrip("/").rpartition("/")[2]
    if not name or not name.isprintable() or len(name) > NAME_CHARACTERS_MAX:
        raise ValueError("not a name")
    return name


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
