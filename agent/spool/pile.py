"""Batches by their numbers and their sizes on disk, with the sum at hand: it is asked for at every beat."""

from collections.abc import Iterator, Mapping

BLOCK = 4096  # bytes; a file takes whole blocks of most disks, and small batches would pass the bound unseen


class Pile:
    """Sequence to bytes, in ascending order, since batches come with growing numbers."""

    def __init__(self, sizes: Mapping[int, int] | None = None) -> None:
        self._sizes = dict(sorted((sizes or {}).items()))
        self.bytes = sum(self._sizes.values())

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Iterator[int]:
        return iter(self._sizes)

    def __contains__(self, sequence: int) -> bool:
        return sequence in self._sizes

    def put(self, sequence: int, size: int) -> None:
        """Add a batch, whose number is the highest."""
        self._sizes[sequence] = size
        self.bytes += size

    def take(self, sequence: int) -> int:
        """Take a batch out and return its bytes; 0 where it was not there."""
        size = self._sizes.pop(sequence, 0)
        self.bytes -= size
        return size

    def oldest(self) -> int | None:
        """Return the lowest number, None where there is none."""
        return next(iter(self._sizes), None)

    def with_all_of(self, other: "Pile") -> "Pile":
        """Return both in one."""
        return Pile(self._sizes | other._sizes)


def occupied(size: int) -> int:
    """Return the bytes that a file of this size takes on disk."""
    return -(-size // BLOCK) * BLOCK
