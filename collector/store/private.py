"""A store's files are for their owner alone: they have names of people in them, and their money."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from collector.store.lake import LakeSettings
from collector.store.power import copy_of

_OTHERS = 0o077  # the rights that nobody else has


def make_private(path: Path | None, lake: LakeSettings | None) -> None:
    """Take from others the rights that earlier releases gave; what belongs to another user is left as it is.

    New files get theirs from the umask, which each command narrows as it begins: DuckDB asks nobody.
    """
    for place in _places(path, lake):
        with suppress(OSError):
            mode = place.stat(follow_symlinks=False).st_mode
            if mode & _OTHERS and not place.is_symlink():
                place.chmod(mode & ~_OTHERS & 0o7777)


def _places(path: Path | None, lake: LakeSettings | None) -> Iterator[Path]:
    if path is not None:
        yield from (path, path.with_name(f"{path.name}.wal"), path.with_name(f"{path.name}.tmp"), copy_of(path))
    if lake is None:
        return
    if lake.file is not None:
        yield lake.file.parent
        yield from (lake.file.with_name(lake.file.name + end) for end in ("", "-wal", "-shm"))
    if lake.folder is not None:
        yield lake.folder
        for folder, folders, files in os.walk(lake.folder):
            yield from (Path(folder) / name for name in (*folders, *files))
