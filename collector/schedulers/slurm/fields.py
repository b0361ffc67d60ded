"""Single fields of Slurm's JSON and text: each release writes them otherwise; unknown is None.

Among them TRES and gres in their several spellings (how many GPUs Slurm counts, and which), and host lists such as
`gpu[001-003,7],login1`. The agent reads those too, but for its own files, and is no library.
"""

import itertools
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from agent.wire.units import SECOND_US
from collector.errors import SchedulerError

UNLIMITED_MINUTES = 365 * 24 * 60  # how 22.05 writes "no limit"
_MOST = 2**64  # Slurm has no larger number; JSON may have one of any length
NO_VALUE = 0xFFFFFFFE  # Slurm's NO_VAL; INFINITE is one more, and 64-bit fields have likes of both
_NOTHING = frozenset({"", "(null)", "N/A", "None", "Unknown", "None assigned", "NONE", "n/a"})


def number(value: object) -> float | None:
    """Return a number, plain or as {set, infinite, number} (since 23.02); None where it is not set or has no end."""
    if isinstance(value, str):
        value = _parsed(value)
    elif isinstance(value, Mapping):
        if value.get("infinite") is True or value.get("set") is False:
            return None
        value = value.get("number")
        value = _parsed(value) if isinstance(value, str) else value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if abs(value) < _MOST else None  # NaN is not less than anything


def whole_number(value: object) -> int | None:
    """Return a number that counts something, or None; Slurm's marks of "no value" are none."""
    found = number(value)
    return None if found is None or not 0 <= found < NO_VALUE else int(found)


def microseconds(value: object) -> int | None:
    """Return a time given in seconds of the epoch, in microseconds; 0 is how Slurm writes "not yet"."""
    seconds = whole_number(value)
    return seconds * SECOND_US if seconds else None


def limit_seconds(value: object) -> float | None:
    """Return a limit given in minutes, in seconds; None where there is none."""
    minutes = whole_number(value)
    return None if minutes is None or minutes >= UNLIMITED_MINUTES else minutes * 60.0


_CLOCK = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


def clock_limit(value: str) -> float | None:
    """Return a limit like 1-02:03:04 or 10:00 in seconds."""
    found = _CLOCK.fullmatch(value)
    if found is None:
        return None
    days, hours, minutes, seconds = (int((part or "0")[:9]) for part in found.groups())
    limit = ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds
    return limit if limit < UNLIMITED_MINUTES * 60 else None


def text(value: object) -> str | None:
    """Return a text, what is no Unicode as question marks; None where it is one of Slurm's ways to say nothing."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and value not in _NOTHING else None


def words(value: object) -> tuple[str, ...]:
    """Return states or flags in capitals: one word, words joined by + or |, or a list of them (since 23.11).

    "CANCELLED by 1000" is CANCELLED, and "IDLE*" IDLE: what follows is said elsewhere.
    """
    if isinstance(value, str):
        return _words(tuple(value.replace("|", "+").split("+")))
    return _words(tuple(map(str, value))) if isinstance(value, (list, tuple)) else ()


@lru_cache(10_000)
def _words(value: tuple[str, ...]) -> tuple[str, ...]:
    found = (word.split(" ", 1)[0].strip("*~#!%$@^-").upper() for word in value)
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


def tasks_in(waiting: str) -> int | None:
    """Return how many tasks "5-99:2%4" or "1,3,7" stands for; None where Slurm cut the list short."""
    count = 0
    for part in waiting.split("%", 1)[0].split(","):
        span, _, step = part.strip().partition(":")
        first, dash, last = span.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (step and not step.isdecimal()):
            return None
        count += len(range(int(first[:9]), int((last or first)[:9]) + 1, int(step[:9] or 1) or 1))
    return count


_MOST_GPU_INDEX = 1024  # on one host
_GRES = re.compile(r"(?:gres[/:])?(gpu|shard|mps)((?:[:/][^:=/]+)*?)(?:[:=](\d{1,18}))?")
_DETAIL = re.compile(r"(?:^|,)gpu((?::[^:,(]+)?):\d+\(IDX:([0-9,\-]*)\)")
# A type of gres.conf that is a profile of MIG, as AutoDetect writes it (a100_1g.5gb, h100_1c.3g.40gb, 1g.10gb+me), or
# as sites do (mig-2g_20gb, a100-mig). Source: Slurm, gres.html "MIG Management".
_MIG = re.compile(r"\d+g[._-]?\d+gb|(?:^|[^a-z])mig(?:[^a-z]|$)", re.IGNORECASE)


def gpus_in(tres: object) -> int | None:
    """Return how many GPUs a TRES speaks of: `cpu=8,gres/gpu=4`, or accounting's list of {type, name, count}.

    Parts of GPUs (shards, MPS, MIG instances) count as 0 whole ones, and None is said where no GPU is spoken of at all.
    """
    return None if tres is None else _gpus_in_text(tres_text(tres))


def tres_text(tres: object) -> str:
    """Return a TRES as text, of a list what is gres; a count that is not known is no number there."""
    if isinstance(tres, str) or not isinstance(tres, Iterable):
        return str(tres)
    listed = (one for one in tres if isinstance(one, Mapping) and one.get("type") == "gres")
    return ",".join(f"gres/{one.get('name')}={whole_number(one.get('count'))}" for one in listed)


@lru_cache(10_000)  # jobs of a cluster ask for the same
def _gpus_in_text(tres: str) -> int | None:
    every: int | None = None  # the count without a type is the sum of those with one
    typed = instances = shares = 0
    for found in filter(None, map(_GRES.fullmatch, tres.split(","))):
        kind, type_, count = found[1], found[2], int(found[3] or 1)
        if kind != "gpu":
            shares += count
        elif not type_:
            every = (every or 0) + count
        else:
            typed += count
            instances += count if _MIG.search(type_) else 0
    whole = max(0, (typed if every is None else every) - instances)
    return whole or (0 if instances + shares else None)


def gpu_indices(detail: str) -> tuple[int, ...] | None:
    """Return which GPUs of a host a detail names: `gpu:h100:4(IDX:0-1,3)` is 0, 1 and 3; None where it does not say.

    Slurm counts them in the order of gres.conf, which is the order of the device files; MIG instances have numbers of
    their own, which are no GPU's.
    """
    found = [None if _MIG.search(type_) else _gpu_numbers(inside) for type_, inside in _DETAIL.findall(detail)]
    if not found or None in found:
        return None
    return tuple(sorted({index for part in found for index in part or ()})) or None


def _gpu_numbers(inside: str) -> list[int] | None:
    numbers: list[int] = []
    for part in filter(None, inside.split(",")):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or int((last or first)[:9]) > _MOST_GPU_INDEX:
            return None
        numbers.extend(range(int(first[:9]), int((last or first)[:9]) + 1))
    return numbers


MOST_NAMES = 200_000  # of one host list
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_ONE_NAME = re.compile(r"[\w.-]+")
_BETWEEN_NAMES = re.compile(r",(?![^\[]*\])")  # commas outside brackets


def host_names(text: str) -> tuple[str, ...]:
    """Return the names that a host list stands for, in its order.

    Raises:
        SchedulerError: a bracket is not closed, a range is no range, or it stands for too many.
    """
    if _ONE_NAME.fullmatch(text):  # as most jobs have
        return (text,)
    found: list[str] = []
    for part in filter(None, (part.strip() for part in _BETWEEN_NAMES.split(text))):
        pieces = _BRACKETS.split(part)  # text, inside, text, inside, …, text
        choices = [_host_numbers(piece, text) if position % 2 else [piece] for position, piece in enumerate(pieces)]
        total = len(found)
        for choice in choices:
            total = max(1, total) * len(choice)
        if total > MOST_NAMES or any(bracket in piece for piece in pieces[::2] for bracket in "[]"):
            raise SchedulerError(f"{text[:80]!r} is not a valid host list")
        found.extend(map("".join, itertools.product(*choices)))
    return tuple(found)


def _host_numbers(inside: str, whole: str) -> list[str]:
    """Return `001`, `002`, `003`, `7` of `001-003,7`: the first number's width is kept."""
    numbers: list[str] = []
    for part in inside.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isascii() and first.isdecimal()) or (dash and not (last.isascii() and last.isdecimal())):
            raise SchedulerError(f"{whole[:80]!r} is not a valid host list: {part[:40]!r} is not a number")
        span = range(int(first[:18]), int((last or first)[:18]) + 1)
        if not span or len(span) > MOST_NAMES:
            raise SchedulerError(f"{whole[:80]!r} is not a valid host list: {part[:40]!r} is not a range")
        numbers.extend(str(number).zfill(len(first)) for number in span)
    return numbers
