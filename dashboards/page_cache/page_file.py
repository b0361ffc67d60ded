"""One kept page as a file: a digest of the rest, a line that says whose, of which state and when, the text."""

import hashlib
import json
import zlib
from collections.abc import Hashable
from dataclasses import dataclass, fields, is_dataclass

PAGES = 256
BYTES = 64 * 2**20  # of all pages together
_TEXT_BYTES = 16 * 2**20  # of one page: the cache bounds it in letters, of four bytes at most
_LEVEL = 1  # of zlib: pages are written while somebody waits for others


@dataclass(frozen=True, slots=True)
class PageRecord:
    """A page: the state of the ledger that it is of, and when that was read, microseconds UTC."""

    state: Hashable
    text: str
    read_at: int


def spelled(value: object) -> str:
    """Return a key or a state in letters: two are spelled alike only where they are the same.

    Raises:
        TypeError: it is made of something else than words, numbers, tuples and dataclasses.
    """
    return json.dumps(value, default=_parts)


def _parts(value: object) -> list[object]:
    if not is_dataclass(value):
        raise TypeError(f"BUG: a page is kept by a {type(value).__name__}, which has no spelling")
    return [type(value).__qualname__, *(getattr(value, field.name) for field in fields(value))]


def name_of(key: Hashable) -> str:
    """Return the name of the page's file, which tells nobody what it is of."""
    return hashlib.sha256(spelled(key).encode()).hexdigest()


def content_of(key: Hashable, made: PageRecord) -> bytes:
    """Return what the file holds."""
    head = {"key": spelled(key), "state": spelled(made.state), "read_at": made.read_at}
    content = json.dumps(head).encode() + b"\n" + zlib.compress(made.text.encode(), _LEVEL)
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def page_of(file: bytes, key: Hashable, state: Hashable) -> PageRecord:
    """Return the page that a file holds. Its state is `state` where it is of that, and else like no other.

    Raises:
        ValueError: it is damaged, or another's.
    """
    digest, _, content = file.partition(b"\n")
    if digest != hashlib.sha256(content).hexdigest().encode():
        raise ValueError("damaged")
    line, _, text = content.partition(b"\n")
    head = json.loads(line)
    if head["key"] != spelled(key):
        raise ValueError("another page's")
    page = zlib.decompressobj().decompress(text, _TEXT_BYTES).decode()
    of = state if head["state"] == spelled(state) else ("before the start", head["state"])
    return PageRecord(of, page, head["read_at"])
