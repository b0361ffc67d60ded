"""Look at the files of a lake that lies in a folder: are they there, as long as they were, and what was written?

Of a file whose hash was noted when it was written its bytes are compared with that. One of an earlier release, or of an
analyzer, is read to its end first. An object store looks after its own bytes; nothing of it is said here.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from collector.backup.manifest import sha256
from collector.errors import NO_MEMORY, StoreError
from collector.store.database import Store
from collector.store.lake import CATALOGUE
from collector.store.noted import Named, Note, forget_unnamed, named_files, newest_snapshot, unreadable, write_notes

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
