"""What a disk may hold after a power cut: all that was synced, and of the rest whatever luck kept.

Writes to a file since its last sync may be lost, kept or torn, each by itself, in any order. Changes of directories
(names that come, go or move) since they were synced are kept up to some point and lost from there. `Promise.POSIX`
keeps what the standard promises: syncing a file says nothing of its name. `Promise.JOURNAL` keeps what ext4 and xfs do:
to sync a file is to commit the journal, and with it every change of a name that went before.
"""

import random
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path, PurePosixPath

from tests.collector.power.recording import Event, Kind

SECTOR = 512  # bytes that a disk writes whole or not at all


class Promise(Enum):
    """What syncing a file is worth."""

    POSIX = "posix"
    JOURNAL = "journal"


@dataclass
class _File:
    """The content that is safe, and what was done to it since."""

    safe: bytearray = field(default_factory=bytearray)
    since: list[Event] = field(default_factory=list)

    def sync(self) -> None:
        for event in self.since:
            _apply(self.safe, event)
        self.since.clear()

    def after_a_cut(self, dice: random.Random) -> bytes:
        content = bytearray(self.safe)
        luck = dice.choice((0.0, 0.5, 1.0))  # of this file: nothing reached the disk, some, all
        for event in self.since:
            if dice.random() < luck:
                _apply(content, event if dice.random() < 0.7 else _torn(event, dice))
        return bytes(content)


class Disk:
    """A folder that a process wrote to, up to some event."""

    def __init__(self, promise: Promise) -> None:
        self._promise = promise
        self._by_inode: dict[int, _File] = {}
        self._names: dict[str, _File | None] = {".": None}  # as they are safe; None is a folder
        self._files: dict[str, _File | None] = {".": None}  # as the process sees them
        self._unsynced: list[tuple[str, Event, _File | None]] = []  # folder, change of a name, file

    def take(self, event: Event) -> None:
        """Let one more event happen."""
        if event.kind in (Kind.WRITE, Kind.TRUNCATE):
            self._by_inode[event.inode].since.append(event)
        elif event.kind is Kind.SYNC_FILE:
            self._by_inode[event.inode].sync()
            if self._promise is Promise.JOURNAL:
                self._keep_names(len(self._unsynced))
        elif event.kind is Kind.SYNC_DIRECTORY:
            self._sync_folder(event.path)
        elif event.kind is Kind.SYNC_ALL:
            for file in self._files.values():
                if file is not None:
                    file.sync()
            self._keep_names(len(self._unsynced))
        else:
            self._rename(event)

    def after_a_cut(self, into: Path, dice: random.Random) -> None:
        """Write what the disk may hold after a power cut at this moment."""
        kept = dice.choice((0, len(self._unsynced), dice.randint(0, len(self._unsynced))))
        names = dict(self._names)
        for _, event, file in self._unsynced[:kept]:
            _change(names, event, file)
        for name in sorted(names):
            file = names[name]
            path = into / name
            if str(PurePosixPath(name).parent) not in names:
                continue  # its folder was lost
            if file is None:
                path.mkdir(exist_ok=True)
            else:
                path.write_bytes(file.after_a_cut(dice))

    def _rename(self, event: Event) -> None:
        file = self._files.get(event.path)
        if event.kind is Kind.CREATE:
            file = self._by_inode[event.inode] = _File()
        _change(self._files, event, file)
        self._unsynced.append((str(PurePosixPath(event.path).parent), event, file))

    def _sync_folder(self, folder: str) -> None:
        if self._promise is Promise.JOURNAL:
            self._keep_names(len(self._unsynced))
            return
        mine = [change for change in self._unsynced if change[0] == folder]
        self._unsynced = [change for change in self._unsynced if change[0] != folder]
        for _, event, file in mine:
            _change(self._names, event, file)

    def _keep_names(self, count: int) -> None:
        for _, event, file in self._unsynced[:count]:
            _change(self._names, event, file)
        del self._unsynced[:count]


def _change(names: dict[str, "_File | None"], event: Event, file: "_File | None") -> None:
    if event.kind in (Kind.CREATE, Kind.MKDIR):
        names[event.path] = file if event.kind is Kind.CREATE else None
    else:
        names.pop(event.path, None)
        if event.kind is Kind.RENAME:
            names[event.to] = file


def _apply(content: bytearray, event: Event) -> None:
    end = event.offset + len(event.data)
    if event.kind is Kind.TRUNCATE:
        del content[event.offset :]
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if event.kind is Kind.WRITE:
        content[event.offset : end] = event.data


def _torn(event: Event, dice: random.Random) -> Event:
    """Return the sectors of a write up to some point, or from it on; a cut of a file's size is whole or nothing."""
    if event.kind is not Kind.WRITE or len(event.data) <= SECTOR:
        return event
    at = dice.randrange(SECTOR, len(event.data), SECTOR)
    if dice.random() < 0.5:
        return Event(event.kind, event.path, event.inode, event.offset, event.data[:at])
    return Event(event.kind, event.path, event.inode, event.offset + at, event.data[at:])
