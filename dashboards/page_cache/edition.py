"""What kept pages are of, beside their states: the program that made them, the settings, the newest analysis."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from analyzer.ledger.believed import believing
from analyzer.queries.generation import release
from analyzer.settings.settings import Settings
from collector.errors import CollectorError

if TYPE_CHECKING:
    from collector.store.database import Store

_ROOMS = Path(__file__).parents[2]
_PACKAGES = ("agent/wire", "analyzer", "collector", "dashboards")
_ANALYSIS = "SELECT list(a ORDER BY a)::VARCHAR FROM analysis a"


def edition_of(store: "Store", settings: Settings) -> Callable[[], str | None]:
    """Return what names the present edition, as 64 hexadecimal digits; it names None before the first analysis.

    Each pass notes up to which batch it came and when, to the microsecond: another ledger in this one's place, an
    older copy, or one that was analysed meanwhile, has another note.
    """
    program = f"{release()} {_digest()} {settings!r}"

    def edition() -> str | None:
        try:
            with believing(store) as session:
                (analysis,) = session.row(_ANALYSIS)
        except CollectorError:  # it has been closed, or is read by as many as may
            return None
        return None if analysis is None else hashlib.sha256(f"{program} {analysis}".encode()).hexdigest()

    return edition


@cache
def _digest() -> str:
    """Return a digest of our own files, as this process was started from them.

    In a checkout the release says nothing of what was changed.
    """
    found = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((_ROOMS / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path.relative_to(_ROOMS)} {path.stat().st_size}\n".encode())
                found.update(path.read_bytes())
    return found.hexdigest()
