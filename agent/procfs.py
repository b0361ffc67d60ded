"""Text out of procfs and sysfs, and how far a counter moved between two readings."""

import os
import re
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent.errors import SourceError

# Far above any file that is read here (mountstats of a hundred mounts is 300 kB); a bound, not a size.
_TEXT_BYTES_MAX = 4 * 1024 * 1024

# stat and io of a process are below 500 bytes.
_SHORT_BYTES_MAX = 4096

_OCTAL = re.compile(r"\\([0-7]{3})")


def text(path: Path) -> str | None:
    """Return what the file says, or None where it is absent, forbidden, or vanished while it was read.

    A process can end between the listing of /proc and the reading of its files, and a kernel can be built without
    a file, so that none of these is an error here: the value is unknown.
    """
    try:
        with path.open("rb") as file:
            return file.read(_TEXT_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return None


def short(path: str) -> bytes | None:
    """Return the first 4 KiB of a file, or None as `text` does, at a third of its cost.

    For the files of every process: a thousand a reading, where file objects and paths cost more than the kernel.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, _SHORT_BYTES_MAX)
        finally:
            os.close(descriptor)
    except OSError:
        return None


def number(path: Path) -> int | None:
    """Return the whole number that the file holds, or None where there is none ("max", "N/A", no file)."""
    content = text(path)
    try:
        return None if content is None else int(content)
    except ValueError:
        return None


def boot_id(proc: Path) -> str | None:
    """Return what tells this boot of the host from every other, or None where the kernel does not show it.

    The kernel refuses to read what lies below sys/ into a buffer of 4 MiB, which is what `text` brings along.
    """
    return (short(str(proc / "sys/kernel/random/boot_id")) or b"").decode("ascii", "replace").strip() or None


def cpu_seconds() -> float:
    """Return the processor time of this process so far. Source: getrusage(2)."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rss_bytes(proc: Path) -> int | None:
    """Return the memory of this process, or None where procfs does not say. Source: /proc/self/statm."""
    pages = (text(proc / "self" / "statm") or "").split()[1:2]
    return int(pages[0]) * os.sysconf("SC_PAGE_SIZE") if pages and pages[0].isdigit() else None


@contextmanager
def understanding(place: Path) -> Iterator[None]:
    """Turn what a parser could not read under this place into a SourceError, so that no daemon dies of a new kernel."""
    try:
        yield
    except (ValueError, IndexError) as error:
        raise SourceError(f"a file under {place} has an unknown format ({error}); please report it") from error


def difference(before: int | None, now: int | None) -> int | None:
    """Return how far a counter moved, or None where a reading is missing or the counter went back (a reset)."""
    if before is None or now is None or now < before:
        return None
    return now - before


_NARROW = 2**32  # where a counter of 32 bits begins anew


def differences(before: object, now: object, names: Sequence[str], narrow: Sequence[str] = ()) -> dict[str, int | None]:
    """Return how far each of these counters of one thing moved; all None where any of them went back.

    A thing that was reset was reset as a whole, also where another counter has already passed its old value. Those in
    `narrow` have 32 bits and begin anew at their end, which is no reset: one that went back by more than half of that
    has gone on.
    """
    moved = {name: difference(getattr(before, name), getattr(now, name)) for name in names}
    for name in narrow:
        first, last = getattr(before, name), getattr(now, name)
        if first is not None and last is not None and last < first and (last - first) % _NARROW < _NARROW // 2:
            moved[name] = (last - first) % _NARROW
    was_reset = any(
        moved[name] is None and getattr(before, name) is not None and getattr(now, name) is not None for name in names
    )
    return dict.fromkeys(names) if was_reset else moved


def share(part: float | None, whole: float) -> float | None:
    """Return part of whole, at most 1, or None where either is unknown or no time has passed.

    The kernel's tick and our clock are read at slightly different moments, so that a device busy all the time may
    seem to have been busy for 1.001 of it.
    """
    if part is None or whole <= 0:
        return None
    return min(1.0, part / whole)


def unescaped(name: str) -> str:
    r"""Return a mount point as it is: mount tables write a space as \040."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), name)
