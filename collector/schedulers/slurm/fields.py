"""Single fields of Slurm's JSON and text: each release writes them otherwise; unknown is None.

Among them TRES and gres in their several spellings (how many GPUs Slurm counts, and which), and host lists such as
`gpu[001-003,7],login1`. The agent reads those too, but for its own files, and is no library. And the rows that sacct
and sacctmgr print, whose fields are separated by bars that names may hold, too.
"""

import codecs
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Generic, TypeVar
from zoneinfo import ZoneInfo

from agent.wire.units import SECOND_US
from collector.errors import SchedulerError

UNLIMITED_MINUTES = 365 * 24 * 60  # how 22.05 writes "no limit"
_MOST = 2**64  # Slurm has no larger number; JSON may have one of any length
_NO_VALUE = 0xFFFFFFFE  # Slurm's NO_VAL; INFINITE is one more, and 64-bit fields have likes of both
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
    return None if found is None or not 0 <= found < _NO_VALUE else int(found)


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


T = TypeVar("T")
_MOST_LINES = 16  # that one row may have, since names may hold line breaks
_MOST_NAMED = 5  # rows that could not be read, of which it is said why
_MOST_SHARES = 256  # ways to share bars out over columns of free text
HEAD_LINES = 64  # before the line that names the fields, for what a login shell prints
# Columns that may hold any text, the likeliest to hold a bar first.
_FREE = ("jobname", "reason", "submitline", "comment", "admincomment", "systemcomment", "workdir", "extra", "wckey")


class NoZoneError(SchedulerError):
    """Times have no zone and nobody says which: no row can be read."""


@dataclass(slots=True)
class RowCount:
    """What became of the rows of files or answers: each was taken, is not about GPUs that are held, or was not read.

    `why` has a sentence for the first few of those; `doubtful_times` counts wall times that stand twice at the end of
    summer time, where nothing says which of the two is meant.
    """

    taken: int = 0
    other: int = 0
    unread: int = 0
    doubtful_times: int = 0
    why: list[str] = field(default_factory=list)

    def add(self, is_taken: bool, doubtful_times: int = 0) -> None:
        """Count one row that was read."""
        self.taken += is_taken
        self.other += not is_taken
        self.doubtful_times += doubtful_times

    def refuse(self, where: str, why: str) -> None:
        """Count one row that was not."""
        self.unread += 1
        if len(self.why) < _MOST_NAMED:
            self.why.append(f"{where}: {why}")

    def sentences(self, source: str) -> list[str]:
        """Return what is to be told of it."""
        rows = self.taken + self.other + self.unread
        became = f"{self.taken:,} taken, {self.other:,} not about GPUs, {self.unread:,} not read"
        told = [f"{source}: {rows:,} row{'s' * (rows != 1)}: {became}"]
        told += [f"  not read: {reason}" for reason in self.why]
        if self.unread > len(self.why):
            told.append(f"  not read: and {self.unread - len(self.why):,} more")
        if self.doubtful_times:
            told.append(
                f"  {self.doubtful_times:,} times stand twice at the end of summer time, and nothing says which: "
                "the first is taken; SLURM_TIME_FORMAT=%s prints times that stand once"
            )
        return told


def decoded(said: bytes) -> str:
    """Return a file's text, whichever mark an editor or a shell has put before it."""
    if said.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return said.decode("utf-16", "replace")
    return said.decode("utf-8-sig", "replace")


def lines_of(text: str) -> list[str]:
    """Return the lines of a text. Only a line feed ends one: names may hold whatever else does elsewhere."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def head_of(lines: Sequence[str], needed: Collection[str], made_by: str) -> tuple[int, list[str]]:
    """Return where the line stands that names the fields, and their names in small letters.

    Raises:
        SchedulerError: there is none near the beginning, or it lacks fields that are needed.
    """
    titled = [[title.strip().lower() for title in line.split("|")] for line in lines[:HEAD_LINES]]
    place = max(range(len(titled)), key=lambda at: (len(set(needed) & set(titled[at])), -at), default=None)
    missing = [name for name in needed if place is None or name not in titled[place]]
    if place is None or missing:
        stands = repr(lines[0][:60]) if lines else "empty"
        raise SchedulerError(f"no line at its beginning names {', '.join(missing)}; the first is {stands}; {made_by}")
    return place, titled[place]


class RowReader(Generic[T]):
    """Reads rows whose fields are separated by bars, and counts each.

    A name may hold bars and line breaks. Which of them are a name's is found by trying: a row is read where all the
    other fields are what they must be in just one way. `read` returns what a record is (None: of no interest), and how
    many of its times are doubtful; it raises a SchedulerError that says why it cannot.
    """

    def __init__(
        self,
        columns: Sequence[str],
        read: Callable[[dict[str, str]], tuple[T | None, int]],
        takes: Callable[[T], bool],
        count: RowCount,
    ) -> None:
        self._columns = columns
        self._read, self._takes, self._count = read, takes, count
        names = [column.lower() for column in columns]
        self._free = [names.index(name) for name in _FREE if name in names]
        self._id = min((names.index(name) for name in ("jobid", "nodename") if name in names), default=0)

    def rows(self, lines: Sequence[str], first: int = 1) -> Iterator[T]:
        """Yield what the rows are; `first` is the number of the first line."""
        held: tuple[list[str], tuple[T | None, int]] | None = None  # the last row, of which a name may go on
        at = 0
        while at < len(lines):
            if not lines[at].strip():
                at += 1
                continue
            used, found, why = self._row(lines, at)
            if found is None and held is not None and (longer := self._longer(held[0], lines[at])):
                held = longer
                at += 1
                continue
            if held is not None:
                yield from self._counted(held[1])
            held = None
            if found is not None:
                held = list(lines[at : at + used]), found
            else:
                self._count.refuse(f"line {first + at}", why)
            at += used
        if held is not None:
            yield from self._counted(held[1])

    def _counted(self, found: tuple[T | None, int]) -> Iterator[T]:
        row, doubtful = found
        self._count.add(row is not None and self._takes(row), doubtful)
        if row is not None:
            yield row

    def _row(self, lines: Sequence[str], at: int) -> tuple[int, tuple[T | None, int] | None, str]:
        """Return how many lines a row has, and what it is or why it cannot be read."""
        width, text = len(self._columns), lines[at]
        why = f"it has {text.count('|') + 1} of {width} columns"
        for used in range(1, _MOST_LINES + 1):
            if text.count("|") + 1 >= width:
                found, reason = self._arranged(text)
                if found is not None:
                    return used, found, ""
                why = reason if used == 1 else why
            if not self._free or at + used >= len(lines) or self._is_row(lines[at + used]):
                break
            text += "\n" + lines[at + used]
        return 1, None, why

    def _is_row(self, line: str) -> bool:
        """Whether a line is a row of its own; one that begins with a bar goes on with the line before."""
        is_long = line.count("|") + 1 >= len(self._columns) and not line.startswith("|")
        return is_long and self._arranged(line)[0] is not None

    def _longer(self, held: list[str], line: str) -> tuple[list[str], tuple[T | None, int]] | None:
        """Return a row with a line that is none by itself, where it goes on with a name of the row before."""
        pieces = line.split("|")
        begins = len(pieces) > self._id + 1 and _NUMBERED.match(pieces[self._id])
        if begins or len(pieces) >= len(self._columns) or len(held) >= _MOST_LINES:
            return None
        lines = [*held, line]
        found, _ = self._arranged("\n".join(lines))
        return (lines, found) if found else None

    def _arranged(self, text: str) -> tuple[tuple[T | None, int] | None, str]:
        """Return what a row is, or why it cannot be read."""
        pieces = text.split("|")
        extra = len(pieces) - len(self._columns)
        if not extra:  # as nearly every row is
            try:
                return self._read(dict(zip(self._columns, pieces, strict=True))), ""
            except NoZoneError:
                raise
            except SchedulerError as error:
                return None, str(error)
        outcomes: dict[tuple[str, ...], tuple[T | None, int]] = {}
        why = f"it has {len(pieces)} columns where {len(self._columns)} are named"
        for shares in _shares(extra, len(self._free)):
            record = self._record(pieces, dict(zip(self._free, shares, strict=True)))
            try:
                found = self._read(record)
            except NoZoneError:
                raise
            except SchedulerError:
                continue
            fixed = tuple(record[name] for at, name in enumerate(self._columns) if at not in self._free)
            outcomes.setdefault(fixed, found)
        if len(outcomes) > 1:
            return None, "its bars can be read in more than one way"
        return next(iter(outcomes.values()), None), why

    def _record(self, pieces: Sequence[str], more: Mapping[int, int]) -> dict[str, str]:
        record: dict[str, str] = {}
        at = 0
        for place, name in enumerate(self._columns):
            end = at + 1 + more.get(place, 0)
            record[name] = "|".join(pieces[at:end])
            at = end
        return record


_NUMBERED = re.compile(r"\d+(?:[_+.\[]\S*)?")


def _shares(extra: int, columns: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to share `extra` bars out over columns, the first takes all first; at most so many."""
    if columns == 0:
        return
    ways = (way for way in itertools.product(range(extra, -1, -1), repeat=columns) if sum(way) == extra)
    if (extra + 1) ** columns > _MOST_SHARES:
        ways = (tuple(extra * (place == taker) for place in range(columns)) for taker in range(columns))
    yield from ways


_WALL = re.compile(r"\d{4}-?\d\d-?\d\d[T ]\d\d:?\d\d(?::?\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d(?::?\d\d)?)?")
_EARLIEST_SECONDS = 10**9  # 2001: a number below is no time of a job


def moments(value: str, zone: ZoneInfo | None, made_by: str) -> Sequence[int | None]:
    """Return the seconds of the epoch that a time in text may mean: two where a wall time stands twice, else one.

    None is "not yet" and "not known", for which there are words: an empty field is neither.

    Raises:
        NoZoneError: it has no zone, and nobody says which.
        SchedulerError: it is no time.
    """
    value = value.strip()
    if value.isdecimal() and _EARLIEST_SECONDS <= int(value[:18]) < _NO_VALUE:
        return [int(value)]
    if value and (text(value) is None or value == "0"):
        return [None]
    try:
        moment = datetime.fromisoformat(value) if _WALL.fullmatch(value) else None
    except ValueError:
        moment = None
    if moment is None:
        raise SchedulerError(f"{value[:40]!r} is not a time")
    if moment.tzinfo is None and zone is None:
        raise NoZoneError(
            f"its times, as {value}, have no time zone: use --timezone, such as Europe/Berlin, or {made_by}"
        )
    wall = moment if moment.tzinfo else moment.replace(tzinfo=zone)
    return sorted({int(wall.replace(fold=fold).timestamp()) for fold in (0, 1)})


def consistent(
    times: Sequence[Sequence[int | None]], agrees: Callable[[Sequence[int | None]], bool]
) -> tuple[tuple[int | None, ...], int]:
    """Return the first choice of times whose last, the end, is not before the start, and how many are doubtful.

    `agrees` says whether a choice agrees with what else is known; where none does, it is not asked.

    Raises:
        SchedulerError: in every choice it ends before it starts.
    """
    if all(len(one) == 1 for one in times) and in_order(times[-2][0], times[-1][0]):
        return tuple(one[0] for one in times), 0
    choices = [choice for choice in itertools.product(*times) if in_order(*choice[-2:])]
    choices = [choice for choice in choices if agrees(choice)] or choices
    if not choices:
        raise SchedulerError("it ends before it starts")
    return choices[0], sum(len({choice[at] for choice in choices}) > 1 for at in (-2, -1))


def in_order(first: float | None, second: float | None) -> bool:
    """Whether the second of two values is not less than the first, as far as both are known."""
    return first is None or second is None or first <= second
