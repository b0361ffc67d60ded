"""The store: how large it is, what is not sealed yet, whether the lake answers, when it was last backed up."""

import time
from collections.abc import Iterator

from agent.wire.units import SECOND_US, WEEK_SECONDS
from analyzer.interfaces.doctor.line import CheckLine, Section
from analyzer.interfaces.doctor.sight import Sight
from analyzer.interfaces.doctor.words import count, length_words, size, some
from collector.backup.backup_maker import backups
from collector.backup.manifest import Manifest, place_of
from collector.errors import BackupError, StoreError
from collector.lake.damage import lost
from collector.lake.file_check import damage_sentence, glanced
from collector.store.noted import named_files

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
    """Say which files are damaged or gone, how many nobody has read yet, and what was set aside."""
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
    gone = lost(sight.session)
    if gone:
        named = some([f"{each.name} of {each.table}" for each in gone])
        yield CheckLine("note", f"{count(len(gone), 'file')} set aside; what it had is not measured: {named}")


def _unsealed(sight: Sight) -> CheckLine:
    """Say what waits: the marker of each collector is of its own batches (the low bits of their numbers)."""
    waiting, oldest = sight.session.row(
        f"""
        SELECT count(*), min(received_at) FROM {sight.receipts} r
        WHERE batch > coalesce((SELECT max(upto) FROM lake.main.markers WHERE collector = r.batch & 255), 0)
        """
    )
    if not waiting:
        return CheckLine("ok", "every batch is sealed")
    age = max(0.0, (sight.now_us - oldest) / SECOND_US)
    words = f"{count(waiting, 'batch', 'batches')} wait to be sealed, the oldest for {length_words(age)}"
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
