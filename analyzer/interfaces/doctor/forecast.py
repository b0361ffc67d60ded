"""When the disk is full: what each table gains a day, for how long it is kept, and what is free."""

import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agent.wire.units import DAY_US
from analyzer.interfaces.doctor.line import CheckLine, Section
from analyzer.interfaces.doctor.sight import Sight
from analyzer.interfaces.doctor.words import size
from collector.errors import StoreError
from collector.lake.lake_files import LakeFile, files
from collector.lake.retention import Keeping
from collector.lake_layout import layouts, tier_of

_LAST_DAYS = 7  # over which the gain of a day is taken
_FAR_DAYS = 3650
_NOTE_DAYS, _BAD_DAYS = 60, 14


@dataclass(frozen=True, slots=True)
class Gain:
    """What one table gains a day, for how many days it is kept, and how many of them it has already."""

    table: str
    bytes_a_day: float
    kept_days: int
    held_days: int


def forecast(sight: Sight) -> Section:
    """Return the lines on disks."""
    return Section("DISK", tuple(_lines(sight)))


def gains(found: Iterable[LakeFile], keeping: Keeping, now_us: int) -> list[Gain]:
    """Return what each table gains, largest first, by the span of time that its files hold. Pure.

    The day that is not over yet is left out, where there is another.
    """
    by_table: dict[str, list[LakeFile]] = defaultdict(list)
    for file in found:
        by_table[file.table].append(file)
    made = [_gain(table, held, keeping.days(table), now_us) for table, held in by_table.items()]
    return sorted(made, key=lambda gain: (-gain.bytes_a_day, gain.table))


def full_in_days(gained: Iterable[Gain], free_bytes: int) -> int | None:
    """Return after how many days so much is gained; None where that is never, since every tier has its end. Pure."""
    growing = [(gain.bytes_a_day, gain.kept_days - gain.held_days) for gain in gained]
    taken = 0.0
    for day in range(1, _FAR_DAYS + 1):
        taken += sum(rate for rate, left in growing if day <= left)
        if taken > free_bytes:
            return day
    return None


def at_rest_bytes(gained: Iterable[Gain]) -> float:
    """Return what the lake holds once every tier is as old as it may get. Pure."""
    return sum(gain.bytes_a_day * gain.kept_days for gain in gained)


def _gain(table: str, held: list[LakeFile], kept_days: int, now_us: int) -> Gain:
    today = now_us // DAY_US
    complete = [file for file in held if file.last // DAY_US < today] or held
    newest = max(file.last for file in complete) // DAY_US
    recent = [file for file in complete if file.last // DAY_US > newest - _LAST_DAYS]
    days = newest - max(newest - _LAST_DAYS + 1, min(file.first for file in recent) // DAY_US) + 1
    age = today - min(file.first for file in held) // DAY_US + 1
    return Gain(table, sum(file.bytes for file in recent) / days, kept_days, min(int(age), kept_days))


def _lines(sight: Sight) -> Iterator[CheckLine]:
    path = sight.store.path
    free = shutil.disk_usage(path.parent).free if path is not None else None
    if sight.store.lake is None:
        if free is not None:
            yield CheckLine(
                "ok", f"{size(free)} are free; without a lake nothing is dropped by age but by the upkeep's jobs"
            )
        return
    config = sight.config
    keeping = Keeping(config.raw_days, config.minute_days, config.hour_days, config.kept_tables, config.keep_bytes)
    try:
        gained = gains(
            files(sight.session, {name: one.clock for name, one in layouts().items()}), keeping, sight.now_us
        )
    except StoreError as error:
        yield CheckLine("unseen", f"what a day brings: the catalogue does not say ({error})")
        return
    if not gained:
        yield CheckLine("note", "nothing is sealed into files yet, so that a day's gain is not known")
    else:
        yield CheckLine("ok", _day(gained))
    if sight.store.lake.folder is None:
        yield CheckLine(
            "ok", f"the files lie in an object store; kept as set they come to {size(at_rest_bytes(gained))}"
        )
    elif free is not None:
        yield _full(gained, free)


def _day(gained: list[Gain]) -> str:
    most = ", ".join(f"{gain.table} {size(gain.bytes_a_day)}" for gain in gained[:4])
    tiers: dict[str, float] = defaultdict(float)
    for gain in gained:
        tiers[tier_of(gain.table)] += gain.bytes_a_day
    by_tier = ", ".join(f"{tier} {size(rate)}" for tier, rate in tiers.items())
    return f"a day brings {size(sum(tiers.values()))} ({by_tier}); most of it: {most}"


def _full(gained: list[Gain], free: int) -> CheckLine:
    days = full_in_days(gained, free)
    rest = f"kept as set, the lake comes to {size(at_rest_bytes(gained))}"
    if days is None:
        return CheckLine("ok", f"{size(free)} are free; {rest}, which fits")
    words = f"{size(free)} are free, and full in {days:,} days; {rest}"
    remedy = "a larger disk, or fewer raw_days, or keep_bytes"
    return CheckLine("bad" if days <= _BAD_DAYS else "note" if days <= _NOTE_DAYS else "ok", words, remedy)
