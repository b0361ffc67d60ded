"""One batch as a file of a spool: its name, what is wrong with it, and its rows under another number."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

from agent.errors import EnvelopeError
from agent.wire.envelope import MAX_BYTES, header_of, open_envelope, seal

SUFFIX = ".batch"
DONE = ".done"  # in its place: a batch that is over, and only its number is still needed
_DIGITS = 20
HIGHEST = 2**62  # of a sequence; a name with more is junk, and must not leave us without numbers


def file_name(sequence: int, suffix: str = SUFFIX) -> str:
    """Return the name of a batch's file; in the order of names they are in the order of sequences."""
    return f"{sequence:0{_DIGITS}}{suffix}"


def sequence_of(name: str, suffix: str = SUFFIX) -> int | None:
    """Return the sequence that a file name says, None where it is none of ours."""
    stem = name.removesuffix(suffix)
    right = name.endswith(suffix) and len(stem) == _DIGITS and stem.isascii() and stem.isdecimal()
    return int(stem) if right and int(stem) < HIGHEST else None


def fault_of(path: Path, stream: str) -> str:
    """Return why a file is no batch of this stream; empty where it is one."""
    sequence = sequence_of(path.name)
    if sequence is None or path.is_symlink() or not path.is_file():
        return "not named as a batch"
    try:
        if path.stat().st_size > MAX_BYTES:
            return "larger than any batch"
        header, _ = open_envelope(path.read_bytes(), MAX_BYTES)
    except (OSError, EnvelopeError) as error:
        return str(error)
    same = (header.stream, header.sequence) == (stream, sequence)
    return "" if same else f"it is batch {header.sequence} of stream {header.stream}"


def renumbered(body: bytes, stream: str, sequence: int) -> bytes:
    """Return the same rows as another batch.

    Raises:
        EnvelopeError: it is no batch.
    """
    header, messages = open_envelope(body, MAX_BYTES)
    return seal(replace(header, stream=stream, sequence=sequence), [bytes(message) for message in messages.values()])


def rows_of(body: bytes) -> Counter[str]:
    """Return how many rows of each table a batch has, by its header alone; nothing where that cannot be read."""
    try:
        return Counter({part.name: part.rows for part in header_of(body).tables})
    except EnvelopeError:
        return Counter()
