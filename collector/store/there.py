"""Whether a store is there at all: who only reads or says something makes none by a slip of its name."""

from pathlib import Path

from collector.errors import StoreError

SHARED = "postgres:"  # how settings name a lake that several hosts share; it may be read where no store's file is


def absent(path: Path | None) -> StoreError:
    """Return the one sentence that says so."""
    return StoreError(f"there is no store at {path}; make one with gpuledger serve --store or gpuledger demo --store")


def check_there(path: Path, lake: str = "") -> None:
    """See that there is a store at this path, or a lake that its settings share with other hosts.

    Raises:
        StoreError: there is neither.
    """
    if not path.exists() and not lake.startswith(SHARED):
        raise absent(path)
