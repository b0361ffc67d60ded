"""Go on without what the lake has lost, or put it back.

A damaged file is taken out of the lake: the catalogue forgets it and keeps in mind of when its rows were. The file
itself is moved beside the data, for whoever may mend it. Readers go on without its rows; hours that are booked from
then on are not measured where it had samples, with that as the reason (analyzer/ledger/pending.py). What a backup still
has of damaged files is put back: they never change, so that a whole copy is the file.
"""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from collector.backup.backup_maker import backups, copied
from collector.backup.manifest import Manifest, sha256
from collector.errors import BackupError, StoreError
from collector.lake.file_check import Damage
from collector.store.books import DATED
from collector.store.database import Store
from collector.store.lake import CATALOGUE, delete
from collector.store.noted import (
    NOTES,
    Lost,
    Named,
    Note,
    lost,
    make_notes,
    named_files,
    unreadable,
    write_lost,
    write_notes,
)
from collector.store.power import sync
from collector.store.seal_mark import Mark, forget_sealed
from collector.store.session import Session, literal

FOLDER = "set-aside"
_CLOCKS = ("started_at", "submitted_at", "received_at", "sealed_at")  # the columns that say when a row was, best first
_END = "ended_at"


def set_aside(store: Store, damages: Sequence[Damage]) -> list[Lost]:
    """Take these files out of the lake, and return what is lost with them.

    A file that names deleted rows takes along the file that has them: without it they would count again.

    Raises:
        StoreError: the lake names no such file, or refuses; nothing was changed.
    """
    if not damages:
        return []
    if store.lake is None or store.lake.folder is None:
        raise StoreError("only a lake whose files lie in a folder has files to set aside")
    now_us = time.time_ns() // 1000
    with store.turn, store.session() as session:
        by_name = {file.name: file for file in named_files(session)}
        if unknown := sorted({damage.name for damage in damages} - set(by_name)):
            raise StoreError(f"the lake has no file {unknown[0]}; gpuledger admin lake check lists the damaged ones")
        with session.transaction():
            make_notes(session)
            gone = [rows for damage in damages for rows in _lost(session, damage, now_us)]
            for damage in damages:
                _forget(session, damage.name)
        if any(damage.table in DATED for damage in damages):
            # Books that a hot file has still are mirrored again, whole days of them; the lake's own word on which it
            # has is forgotten for that.
            with session.transaction():
                delete(session, "DELETE FROM lake.books.ledger_hours")
    _move(store.lake.folder, [by_name[damage.name] for damage in damages])
    return gone


def give_up(store: Store) -> list[Lost]:
    """Go on with a lake that lacks what this store has sealed into it, and return what is lost, if anything is."""
    if store.lake is None or store.hot is None:
        return []
    with store.session() as session:
        before = lost(session)
    with store.turn, store.hot_session() as hot:
        Mark.of(store)
        with hot.transaction():
            forget_sealed(hot)
    with store.session() as session:
        return [rows for rows in lost(session) if rows not in before]


def _lost(session: Session, damage: Damage, now_us: int) -> list[Lost]:
    """Write down what rows were in a file, and in those whose deleted rows it names."""
    told = []
    for number, path, rows, ended in session.rows(_DATA.format(name=literal(damage.name))):
        first, last = _span(session, number, now_us)
        part = Lost(damage.table, Path(path).name, first, last, rows, damage.why, now_us)
        if ended is None:  # else its rows are elsewhere since
            write_lost(session, part)
            told.append(part)
    return told


_DATA = (
    f"SELECT data_file_id, path, record_count, end_snapshot FROM {CATALOGUE}.ducklake_data_file f "
    "WHERE parse_filename(path) = {name} OR data_file_id IN ("
    f"SELECT data_file_id FROM {CATALOGUE}.ducklake_delete_file WHERE end_snapshot IS NULL "
    "AND parse_filename(path) = {name})"
)


def _span(session: Session, number: int, now_us: int) -> tuple[int | None, int | None]:
    """Return from when to when a file's rows were, by its statistics; what had not ended lasts until now."""
    rows = session.rows(
        f"""
        SELECT c.column_name, s.min_value::BIGINT, s.max_value::BIGINT, coalesce(s.null_count, 1) > 0
        FROM {CATALOGUE}.ducklake_file_column_stats s
        JOIN {CATALOGUE}.ducklake_column c ON c.column_id = s.column_id AND c.table_id = s.table_id
        WHERE s.data_file_id = {number} AND list_contains(?, c.column_name)
        """,
        [[*_CLOCKS, _END]],
    )
    told = {column: (first, last, is_open) for column, first, last, is_open in rows}
    clock = next((told[name] for name in _CLOCKS if name in told and told[name][0] is not None), None)
    if clock is None:
        return None, None
    _, end, is_open = told.get(_END, (None, None, False))
    ends = [clock[1], *([] if end is None else [end]), *([now_us] if is_open else [])]
    return clock[0], max(ends)


def _forget(session: Session, name: str) -> None:
    ids = [number for (number, *_) in session.rows(_DATA.format(name=literal(name)))]
    for number in ids:
        session.execute(
            f"""
            UPDATE {CATALOGUE}.ducklake_table_stats SET
                record_count = record_count - (SELECT record_count FROM {CATALOGUE}.ducklake_data_file
                    WHERE data_file_id = {number} AND end_snapshot IS NULL)
            WHERE table_id IN (SELECT table_id FROM {CATALOGUE}.ducklake_data_file
                WHERE data_file_id = {number} AND end_snapshot IS NULL)
            """
        )
        for table in ("ducklake_file_column_stats", "ducklake_delete_file", "ducklake_data_file"):
            session.execute(f"DELETE FROM {CATALOGUE}.{table} WHERE data_file_id = {number}")
    session.execute(f"DELETE FROM {CATALOGUE}.ducklake_delete_file WHERE parse_filename(path) = {literal(name)}")
    session.execute(f"DELETE FROM {CATALOGUE}.{NOTES} WHERE name = ?", [name])


def _move(folder: Path, files: Iterable[Named]) -> None:
    """Move the files out of the data: orphans there would be removed after a day."""
    aside = folder.parent / FOLDER
    try:
        for file in files:
            if (folder / file.path).exists():
                aside.mkdir(0o700, exist_ok=True)
                (folder / file.path).rename(aside / file.name)
    except OSError as error:
        raise StoreError(
            f"the lake continues without it, but {error.filename} was not moved: {error.strerror}"
        ) from error


_ASIDE = ".mending"


def put_back(store: Store, damages: Sequence[Damage], place: Path) -> list[Damage]:
    """Put whole copies of these files, from the backups of a folder, in their places; return those that were put back.

    Raises:
        StoreError: the disk refuses, or the catalogue does.
    """
    folder = store.lake.folder if store.lake is not None else None
    if folder is None or not damages:
        return []
    copies = _copies(place)
    with store.session() as session:
        files = {file.name: file for file in named_files(session)}
    done = []
    for damage in damages:
        file = files.get(damage.name)
        copy = next((one for one in copies.get(damage.name, []) if file is not None and _is_whole(one, file)), None)
        if file is not None and copy is not None:
            _replace(copy, folder / file.path)
            now_us = time.time_ns() // 1000
            write_notes(store, [Note(file.name, sha256(folder / file.path), now_us, None)])
            done.append(damage)
    return done


def _copies(place: Path) -> dict[str, list[Path]]:
    """Return where backups have files of the lake, by their names, of the newest backup first."""
    found: dict[str, list[Path]] = {}
    for backup in reversed(backups(place)):
        try:
            manifest = Manifest.read(backup)
        except BackupError:  # a damaged one may stand before one that is whole
            continue
        for file in manifest.files:
            found.setdefault(Path(file.path).name, []).append(backup / file.path)
    return found


def _is_whole(copy: Path, file: Named) -> bool:
    try:
        if copy.stat().st_size != file.bytes:
            return False
        return sha256(copy) == file.sha256 if file.sha256 is not None else unreadable(copy) is None
    except OSError:
        return False


def _replace(copy: Path, target: Path) -> None:
    aside = target.with_name(target.name + _ASIDE)
    try:
        aside.unlink(missing_ok=True)
        copied(copy, target.parent, aside)
        aside.replace(target)
        sync(target.parent)
    except OSError as error:
        raise StoreError(f"cannot put {copy} back to {target}: {error.strerror}") from error
