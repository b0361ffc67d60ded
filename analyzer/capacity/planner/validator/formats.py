"""How the validator writes times, names and lists: exact, for its sentences are read back by who proposed."""

from collections.abc import Iterable
from difflib import get_close_matches

from analyzer.capacity.planner.problem import Medium
from analyzer.text.words import plain

_NAMES_TOLD = 5
MEDIA: dict[Medium, str] = {
    "local": "as a local copy",
    "rack": "within the rack",
    "cross_rack": "between racks",
    "storage": "over network storage",
}


def exact(seconds: int) -> str:
    """Return a time or a span to the second, and as the number that a proposal says: "3 h 00 min 10 s (10810 s)"."""
    hours, minutes, rest = abs(seconds) // 3600, abs(seconds) // 60 % 60, abs(seconds) % 60
    if not hours and not minutes:
        return f"{seconds} s"
    parts = [f"{hours:,} h"] if hours else []
    parts += [f"{minutes:02d} min" if hours else f"{minutes} min"] if minutes or rest else []
    parts += [f"{rest:02d} s"] if rest else []
    return f"{'-' if seconds < 0 else ''}{' '.join(parts)} ({seconds} s)"


def listed(names: Iterable[str]) -> str:
    """Return names with commas, the first few of many."""
    told = [plain(name) for name in names]
    rest = len(told) - _NAMES_TOLD
    return ", ".join(told) if rest <= 1 else f"{', '.join(told[:_NAMES_TOLD])} and {rest} more"


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the way out for a name that does not exist."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    return f"did you mean {plain(near[0])}?" if near else f"there are {listed(names)}"
