"""The store: its size, what is not sealed yet, whether the lake answers, its last backup, when the disk is full."""

import shutil
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agent.wire.units import DAY_US, SECOND_US, WEEK_SECONDS
from analyzer.interfaces.doctor.sight import CheckLine, Section, Sight, count, length_words, size, some
from collector.backup.backup_maker import backups
from collector.backup.manifest import Manifest, place_of
from collector.cli.table import utc_text
from collector.errors import BackupError, StoreError
from collector.lake.damage import damage_sentence, glanced
from collector.lake.lake_files import LakeFile, files
from collector.lake.retention import Keeping
from collector.store.noted import lost, named_files
from collector.store.seal_mark import LOST_BATCHES
from collector.tier_tables import layouts, tier_of

_OLD_BACKUP_SECONDS = WEEK_SECONDS
_LOG_BYTES = 1 << 30  # a log is folded in at 64 MB; one that grows so far is not


def storage(sight: Sight) -> Section:
    """Return what is to be said of the files."""
    return Section("STORE", (*_hot(sight), *_lake(sight), *_backup(sight)))


def _hot(sight: Sight) -> Iterator[CheckLine]:
    store = sight.store
    if store.hot is None:
        yield CheckLine(
            "unseen", "the hot file: another process has it; what is not sealed yet is in it", "use --server URL"
        )
        return
    if store.path is None:
        return
    log = store.path.with_name(store.path.name + ".wal")
    logged = log.stat().st_size if log.exists() else 0
    words = f"the hot file has {size(store.path.stat().st_size)}, its log {size(logged)}"
    yield CheckLine("bad" if logged > _LOG_BYTES else "ok", words, "restart the server" if logged > _LOG_BYTES else "")


def _lake(sight: Sight) -> Iterator[CheckLine]:
    if sight.store.lake is None:
        yield CheckLine("note", "there is no lake: all samples lie in the one file", "gpuledger serve makes one")
        return
    if sight.store.hot is not None:
        yield _unsealed(sight)
    if sight.live is not None and sight.live.seal_error is not None:
        yield CheckLine("bad", "the last sealing failed; it is tried again", "the server's log says why")
    began = time.monotonic()
    try:
        snapshots, files, held = sight.session.row(
            "SELECT (SELECT count(*) FROM ducklake_snapshots('lake')), sum(file_count)::BIGINT, "
            "sum(file_size_bytes)::BIGINT FROM ducklake_table_info('lake')"
        )
    except StoreError as error:
        yield CheckLine("bad", f"the lake's catalogue does not answer: {error}", "see whether its server runs")
        return
    took = (time.monotonic() - began) * 1000
    kind = "SQLite" if sight.store.lake.file is not None else "PostgreSQL"
    held_words = f"{count(files or 0, 'file')}, {size(held or 0)}, {count(snapshots, 'snapshot')}"
    yield CheckLine("ok", f"the lake has {held_words}; its catalogue ({kind}) answers in {took:.0f} ms")
    yield from _files(sight)


def _files(sight: Sight) -> Iterator[CheckLine]:
    """Say what is lost, which files are damaged or gone, and how many nobody has read yet."""
    gone = lost(sight.session)
    for name, first, last in sorted({(e.name, e.first_at, e.last_at) for e in gone if e.name.startswith(LOST_BATCHES)}):
        words = f"the lake has lost {name}, {utc_text(first or 0)} to {utc_text(last or 0)} UTC"
        yield CheckLine("note", f"{words}: nobody has sent them again, and what they had is not measured")
    if sight.store.lake is None or sight.store.lake.folder is None:
        yield CheckLine("unseen", "the lake's files lie in an object store, which looks after them itself")
        return
    damages = glanced(sight.store)
    if damages:
        yield CheckLine("bad", damage_sentence(damages), "gpuledger admin lake check says more")
    known = named_files(sight.session)
    unread = sum(file.sha256 is None for file in known)
    if unread:
        yield CheckLine(
            "note", f"{count(unread, 'file')} of the lake not read since written; damage would not show yet"
        )
    elif not damages:
        oldest = min((file.checked_at for file in known), default=sight.now_us)
        ago = length_words(max(0.0, (sight.now_us - oldest) / SECOND_US))
        yield CheckLine("ok", f"every file of the lake was as it was written, when it was read within the last {ago}")
    aside = [f"{each.name} of {each.table}" for each in gone if not each.name.startswith(LOST_BATCHES)]
    if aside:
        named = some(aside)
        yield CheckLine("note", f"{count(len(aside), 'file')} set aside; what it had is not measured: {named}")


def _unsealed(sight: Sight) -> CheckLine:
    """Say what waits: the marker of each collector is of its own batches (the low bits of their numbers)."""
    waiting, oldest = sight.session.row(
        f"""
        SELECT count(*), min(received_at) FROM {sight.receipts} r
        WHERE batch > coalesce((SELECT max(upto) FROM lake.main.markers WHERE collector = r.batch & 255), 0)
        """
    )
    if not waiting:
        (any_sealed,) = sight.session.row("SELECT count(*) > 0 FROM lake.main.markers")
        return CheckLine("ok", "every batch is sealed") if any_sealed else CheckLine("note", "no batch has come yet")
    age = max(0.0, (sight.now_us - oldest) / SECOND_US)
    words = f"{count(waiting, 'batch', 'batches')} not sealed yet, the oldest for {length_words(age)}"
    if age <= sight.config.ready_seal_seconds:
        return CheckLine("ok", words)
    return CheckLine("bad", words, "the server's log says why sealing fails; agents keep their batches until it works")


def _backup(sight: Sight) -> Iterator[CheckLine]:
    if sight.store.path is None:
        return
    newest = backups(place_of(sight.config, sight.store.path))[-1:]
    if not newest:
        remedy = "gpuledger admin backup --to DIR" + (" --server URL" if sight.live is not None else "")
        yield CheckLine("note", "no backup was made where the settings say", remedy)
        return
    try:
        age = (sight.now_us - Manifest.read(newest[0]).made_at) / SECOND_US
    except BackupError as error:
        yield CheckLine("bad", str(error), "gpuledger admin backup verify says which are whole")
        return
    words = f"the newest backup is {length_words(max(0.0, age))} old"
    yield CheckLine(
        "note" if age > _OLD_BACKUP_SECONDS else "ok", words, "make one" if age > _OLD_BACKUP_SECONDS else ""
    )


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
                "ok", f"{size(free)} are free; without a lake nothing is dropped by age but by the maintenance jobs"
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
        unknown = "nothing is sealed into files yet: what a day brings is not known"
        yield CheckLine("note", unknown if free is None else f"{size(free)} are free; {unknown}")
        return
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
