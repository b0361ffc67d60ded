"""Figures as notices write them: whole numbers in, the words of a sentence out."""

from agent.wire.units import GIB, HOUR_MS


def length_of_time(ms: int) -> str:
    """Return a length of time: "3.5 h", "40 min"."""
    if ms < HOUR_MS:
        return f"{ms // 60_000} min"
    return f"{tenths((ms * 10 + HOUR_MS // 2) // HOUR_MS)} h"


def gpu_hours(ms: int) -> str:
    """Return GPU time in hours, to a tenth."""
    return tenths((ms * 10 + HOUR_MS // 2) // HOUR_MS)


def tenths(amount: int) -> str:
    """Return a number of tenths: 125 is "12.5", 120 is "12"."""
    whole, rest = divmod(amount, 10)
    return f"{whole:,}.{rest}" if rest else f"{whole:,}"


def percent(permille: int) -> str:
    """Return a share: 125 is "12.5%"."""
    return f"{tenths(permille)}%"


def gib(amount: int) -> str:
    """Return memory in GiB, to a tenth."""
    return f"{tenths((amount * 10 + GIB // 2) // GIB)} GiB"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: "1 host", "3 hosts"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def some(names: list[str], most: int = 4) -> str:
    """Return a list of names that stays short: "n1, n2, n3, n4 and 8 more"."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def called(names: list[str]) -> str:
    """Return runs of one name as findings do: "det-sweep (41)"."""
    return f"{names[0]} ({len(names)})" if len(names) > 1 else names[0]
