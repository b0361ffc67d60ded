"""Go on without what the lake has lost, or put it back.

A damaged file is taken out of the lake: the catalogue forgets it and keeps in mind of when its rows were. The file
itself is moved beside the data, for whoever may mend it. Readers go on without its rows; hours that are booked from
then on are not measured where it had samples, with that as the reason (analyzer/ledger/pending.py). What a backup still
has of damaged files is put back: they never change, so that a whole copy is the file.

Look at the files of a lake that lies in a folder: are they there, as long as they were, and what was written?

Of a file whose hash was noted when it was written its bytes are compared with that. One of an earlier release, or of an
analyzer, is read to its end first. An object store looks after its own bytes; nothing of it is said here.
"""

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.backup.backup_maker import backups, copied
from collector.backup.manifest import Manifest, sha256
from collector.errors import NO_MEMORY, BackupError, StoreError
from collector.store.books import DATED
from collector.store.database import Store
from collector.store.lake import CATALOGUE, delete
from collector.store.noted import (
    NOTES,
    Lost,
    Named,
    Note,
    forget_unnamed,
    lost,
    make_notes,
    named_files,
    newest_snapshot,
    unreadable,
    write_lost,
    write_notes,
)
from collector.store.power import sync
from collector.store.seal_mark import Mark, forget_sealed
from collector.store.session import Session, literal

_SHOWN = 3  # files that a sentence names
_AT_ONCE = 200  # files between two transactions of the catalogue
_NO_FILE = "is missing"
_DIAGNOSIS_SECONDS = 120.0  # for what is read to explain an error


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that is not what was sealed, and in a few words why."""

    table: str
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} of {self.table} {self.why}"


def damage_sentence(damages: Iterable[Damage]) -> str:
    """Return a sentence that names the first of them and says how to go on without them."""
    found = list(damages)
    more = f", and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    return (
        f"the lake is damaged: {'; '.join(map(str, found[:_SHOWN]))}{more}. Restore what a backup still has, "
        "or set it aside: gpuledger admin lake aside --all"
    )


def _at_a_glance(folder: Path, file: Named) -> str | None:
    """Return what is wrong with a file by its name and length, or by what was noted before; None where nothing is."""
    try:
        size = (folder / file.path).stat().st_size
    except OSError as error:
        return (
            _NO_FILE
            if isinstance(error, (FileNotFoundError, NotADirectoryError))
            else f"cannot be read: {error.strerror}"
        )
    if size != file.bytes:
        return f"has {size:,} bytes and was written with {file.bytes:,}"
    return file.trouble


def _looked_through(folder: Path, file: Named) -> tuple[str | None, str | None]:
    """Read a file whole; return its hash and what is wrong with it, each None where there is none."""
    if (wrong := _at_a_glance(folder, file)) is not None and wrong != file.trouble:
        return file.sha256, wrong
    path = folder / file.path
    try:
        found = sha256(path)
    except OSError as error:
        return file.sha256, f"cannot be read: {error.strerror}"
    if file.sha256 is None:
        why = unreadable(path)
        return (found, None) if why is None else (None, f"cannot be read: {why}")
    return file.sha256, None if found == file.sha256 else "has changed since it was written: its sha256 differs"


def glanced(store: Store) -> list[Damage]:
    """Return which files are missing, cut, or known to be damaged; none where the data do not lie in a folder."""
    folder = store.lake.folder if store.lake is not None else None
    if folder is None:
        return []
    with store.session() as session:
        files = named_files(session)
    seen = [Damage(file.table, file.name, why) for file in files if (why := _at_a_glance(folder, file)) is not None]
    return _still_named(store, seen)


def check(store: Store, deadline: float, now_us: int, *, notes_it: bool = True) -> tuple[int, list[Damage]]:
    """Look through the files, those first that were not looked at for longest, until a deadline (time.monotonic).

    Returns how many it had no time for, and what is wrong with all that are named, looked through or only seen. What
    was seen is noted, unless the store is only read.
    """
    folder = store.lake.folder if store.lake is not None else None
    if folder is None:
        return 0, []
    with store.session() as session:
        files = sorted(named_files(session), key=lambda file: (file.checked_at, file.name))
    wrong: list[Damage] = []
    waiting: list[Named] = []
    notes: list[Note] = []
    for file in files:
        if waiting or time.monotonic() > deadline:
            waiting.append(file)
            why = _at_a_glance(folder, file)
        else:
            hash_, why = _looked_through(folder, file)
            # What is missing is not noted: it is seen at each glance, and mended by bringing it back.
            notes.append(Note(file.name, hash_, now_us, None if why == _NO_FILE else why))
        if why is not None:
            wrong.append(Damage(file.table, file.name, why))
        if notes_it and len(notes) >= _AT_ONCE:
            write_notes(store, notes)
            notes.clear()
    if notes_it:
        write_notes(store, notes)
        forget_unnamed(store)
    return len(waiting), _still_named(store, wrong)


def require_whole(store: Store, names: Collection[str]) -> None:
    """See that files are what was written, before they are written anew: what has turned in them would count as right.

    Raises:
        StoreError: one is not, or the catalogue does not answer.
    """
    folder = store.lake.folder if store.lake is not None else None
    if folder is None:
        return
    with store.session() as session:
        files = [file for file in named_files(session) if file.name in names]
    looks = ((file, _looked_through(folder, file)[1]) for file in files)
    if damages := [Damage(file.table, file.name, why) for file, why in looks if why is not None]:
        raise StoreError(damage_sentence(damages))


def note_written(store: Store, since: int) -> None:
    """Note the hashes of the files that came after a snapshot: we have just written them, and nothing has changed them.

    Nothing is raised: what is not noted now is read and noted by the next check.
    """
    folder = store.lake.folder if store.lake is not None else None
    if folder is None:
        return
    try:
        with store.session() as session:
            fresh = [file for file in named_files(session, since=since) if file.sha256 is None and not file.trouble]
        now_us = time.time_ns() // 1000
        whole = [file for file in fresh if _at_a_glance(folder, file) is None]
        write_notes(store, [Note(file.name, sha256(folder / file.path), now_us, None) for file in whole])
    except (StoreError, OSError):
        return


def require_catalogue(store: Store) -> None:
    """See that a catalogue in SQLite is whole by its own check, which reads all of it.

    Raises:
        StoreError: it is not, which the message names, or it does not answer.
    """
    file = store.lake.file if store.lake is not None else None
    if file is None:
        return
    with store.session() as session:
        said = session.row(f"FROM sqlite_query('{CATALOGUE}', 'PRAGMA quick_check(1)')")[0]
    if said != "ok":
        raise StoreError(
            f"the lake's catalogue {file} is damaged ({said}): stop the server and restore a backup (gpuledger "
            "admin restore)"
        )


def snapshot_of(store: Store) -> int | None:
    """Return the lake's newest snapshot; None where there is no lake, or it does not answer."""
    if store.lake is None:
        return None
    try:
        with store.session() as session:
            return newest_snapshot(session)
    except StoreError:
        return None


def with_damage(store: Store, error: StoreError) -> StoreError:
    """Return the error of a reading with what is wrong with the lake's files, if that may be why; else as it is."""
    if NO_MEMORY in str(error):  # no file is to blame
        return error
    try:
        _, damages = check(store, time.monotonic() + _DIAGNOSIS_SECONDS, time.time_ns() // 1000)
    except StoreError:
        return error
    return StoreError(f"{damage_sentence(damages)} ({error})") if damages else error


def _still_named(store: Store, seen: list[Damage]) -> list[Damage]:
    """Leave out what the catalogue names no more: a compaction may have removed it while we looked."""
    if not seen:
        return []
    with store.session() as session:
        named = {file.name for file in named_files(session)}
    return [damage for damage in seen if damage.name in named]


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
