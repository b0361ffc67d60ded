"""Single fields of Slurm's JSON and text: each release writes them otherwise; unknown is None."""

from collections.abc import Mapping

from agent.wire.units import SECOND_US

UNLIMITED_MINUTES = 365 * 24 * 60  # how 22.05 writes "no limit"
_MOST = 2**64  # Slurm has no larger number; JSON may have one of any length
_NO_VALUE = 0xFFFFFFFE  # Slurm's NO_VAL; INFINITE is one more, and 64-bit fields have likes of both
_NOTHING = frozenset({"", "(null)", "N/A", "None", "Unknown", "None assigned", "NONE", "n/a"})


def number(value: object) -> float | None:
    """Return a number, plain or as {set, infinite, number} (since 23.02); None where it is not set or has no end."""
    if isinstance(value, Mapping):
        if value.get("infinite") is True or value.get("set") is False:
            return None
        value = value.get("number")
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if abs(value) < _MOST else None  # NaN is not less than anything


def whole_number(value: object) -> int | None:
    """Return a number that counts something, or None; Slurm's marks of "no value" are none."""
    found = number(value)
    return None if found is None or not 0 <= found < _NO_VALUE else int(found)


def microseconds(value: object) -> int | None:
    """Return a time given in seconds of the epoch, in microseconds; 0 is how Slurm writes "not yet"."""
    seconds = whole_number(value)
    return seconds * SECOND_US if seconds else None


def limit_seconds(value: object) -> float | None:
    """Return a limit given in minutes, in seconds; None where there is none."""
    minutes = whole_number(value)
    return None if minutes is None or minutes >= UNLIMITED_MINUTES else minutes * 60.0


def text(value: object) -> str | None:
    """Return a text, what is no Unicode as question marks; None where it is one of Slurm's ways to say nothing."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and value not in _NOTHING else None


def words(value: object) -> tuple[str, ...]:
    """Return states or flags in capitals: one word, words joined by + or |, or a list of them (since 23.11).

    "CANCELLED by 1000" is CANCELLED, and "IDLE*" IDLE: what follows is said elsewhere.
    """
    if isinstance(value, str):
        value = value.replace("|", "+").split("+")
    if not isinstance(value, (list, tuple)):
        return ()
    found = (str(word).split(" ", 1)[0].strip("*~#!%$@^-").upper() for word in value)
    return tuple(word for word in found if word)


def _parsed(value: str) -> float | None:
    try:
        return int(value)
    except ValueError:
        pass
    try:
        return float(value)
    except ValueError:
        return None
