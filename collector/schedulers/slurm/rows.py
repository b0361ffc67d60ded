"""The rows that sacct and sacctmgr print, whose fields are separated by bars that names may hold, too.

Each row is counted: taken, not about GPUs, or not read, and why. Times in text have a zone, or somebody says which.
"""

import codecs
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Generic, TypeVar
from zoneinfo import ZoneInfo

from collector.errors import SchedulerError
from collector.schedulers.slurm.fields import NO_VALUE, text

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
    summer time, where nothing says which of the two is meant; `is_cut` says that the last line has no end.
    """

    taken: int = 0
    other: int = 0
    unread: int = 0
    doubtful_times: int = 0
    is_cut: bool = False
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
        if self.is_cut:
            told.append("  the last line has no end: where the file was cut, its row says less than there was")
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


def _head(lines: Sequence[str], needed: Collection[str], made_by: str) -> int:
    """Return where the line stands that names the fields.

    Raises:
        SchedulerError: there is none near the beginning, or it lacks fields that are needed.
    """
    titled = [_names(line) for line in lines[:HEAD_LINES]]
    place = max(range(len(titled)), key=lambda at: (len(set(needed) & set(titled[at])), -at), default=None)
    missing = [name for name in needed if place is None or name not in titled[place]]
    if place is None or missing:
        stands = repr(lines[0][:60]) if lines else "empty"
        raise SchedulerError(f"no line at its beginning names {', '.join(missing)}; the first is {stands}; {made_by}")
    return place


def titled_rows(
    lines: Sequence[str], needed: Sequence[str], made_by: str
) -> Iterator[tuple[int, list[str], Sequence[str]]]:
    """Yield the number of the first row below each line that names the fields, their names in small letters, the rows.

    Files may have been joined, whose fields stand in different orders.

    Raises:
        SchedulerError: no line near the beginning names them, or it lacks fields that are needed.
    """
    place = _head(lines, needed, made_by)
    below = range(place + 1, len(lines))
    heads = [at for at in below if needed[0] in lines[at].lower() and {*needed} <= {*_names(lines[at])}]
    for at, end in pairwise([place, *heads, len(lines)]):
        yield at + 2, _names(lines[at]), lines[at + 1 : end]


def _names(line: str) -> list[str]:
    return [title.strip().lower() for title in line.split("|")]


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
    if value.isdecimal() and _EARLIEST_SECONDS <= int(value[:18]) < NO_VALUE:
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
    found = sorted({int(wall.replace(fold=fold).timestamp()) for fold in (0, 1)})
    if len(found) > 1 and datetime.fromtimestamp(found[0], zone).replace(tzinfo=None) != moment.replace(microsecond=0):
        raise SchedulerError(f"{value} does not exist in {zone}, where clocks went forward over it")
    return found


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
