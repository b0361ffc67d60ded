"""How moments, spans and places of a plan are written."""

from agent.wire.units import DAY_SECONDS, DAY_US, HOUR_SECONDS, MINUTE_SECONDS
from analyzer.capacity.planner.plan import Solver
from analyzer.capacity.planner.problem import Medium
from analyzer.period import local
from analyzer.text.rounding import nearest
from analyzer.text.words import NO_BREAK, day, moment_words

_NAMED_DAYS_US = 6 * DAY_US  # within it the name of a day says which one
_SURE = 0.995  # draws never say that something is certain

SOLVER_WORDS: dict[Solver, str] = {
    "olb": "OLB (next free)",
    "heft": "HEFT",
    "random_heft": "HEFT, randomised",
    "cp_sat": "CP-SAT (exact)",
    "said": "as it was said",
}
_MEDIUM_WORDS: dict[Medium, str] = {
    "local": "same node",
    "rack": "rack network",
    "cross_rack": "cross-rack network",
    "storage": "network storage",
}


def when(instant: int, timezone: str, near: int) -> str:
    """Return a moment as "Fri 14:20", or with its day of the month where it is a week from `near` or more."""
    at = local(instant, timezone)
    if abs(instant - near) >= _NAMED_DAYS_US:
        return moment_words(instant, timezone)
    return f"{day(at).split(' ', 1)[0]} {at:%H:%M}"


def short_when(instant: int, timezone: str, near: int) -> str:
    """Return a moment for a column: "Fri 14:20", or "27 Nov 14:20" where it is a week from `near` or more."""
    told = when(instant, timezone, near)
    return told if abs(instant - near) < _NAMED_DAYS_US else told.split(" ", 1)[1]


def again(instant: int, timezone: str, near: int) -> str:
    """Return a moment that is told beside `near`: its time alone on the same day."""
    at = local(instant, timezone)
    return f"{at:%H:%M}" if at.date() == local(near, timezone).date() else when(instant, timezone, near)


def about(seconds: int) -> str:
    """Return a span as people say it: "40 s", "28 min", "8 h", "8 h 30 min", "2 d 3 h"."""
    if seconds < MINUTE_SECONDS:
        return f"{seconds} s".replace(" ", NO_BREAK)
    minutes = nearest(seconds, MINUTE_SECONDS)
    if minutes < HOUR_SECONDS // MINUTE_SECONDS:
        return f"{minutes} min".replace(" ", NO_BREAK)
    if seconds < 2 * DAY_SECONDS:
        return _two(minutes // 60, "h", minutes % 60, "min")
    hours = nearest(seconds, HOUR_SECONDS)
    return _two(hours // 24, "d", hours % 24, "h")


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = f" {small} {small_unit}" if small else ""
    return f"{large} {large_unit}{rest}".replace(" ", NO_BREAK)


def brief(seconds: int) -> str:
    """Return a span for a narrow column: "40 s", "28 min", "1.3 h", "2.5 d"."""
    if seconds < HOUR_SECONDS - MINUTE_SECONDS // 2:
        return about(seconds)
    unit, word = (HOUR_SECONDS, "h") if seconds < 2 * DAY_SECONDS else (DAY_SECONDS, "d")
    return f"{nearest(10 * seconds, unit) / 10:,.1f}{NO_BREAK}{word}"


def exact(seconds: int) -> str:
    """Return a span to the second, without the zeros at its end: "9 h 00 min 11 s", "9 h 30 min", "5 h", "40 s"."""
    hours, minutes, rest = seconds // HOUR_SECONDS, seconds // MINUTE_SECONDS % 60, seconds % MINUTE_SECONDS
    parts = [f"{hours:,} h"] if hours else []
    if minutes or (hours and rest):
        parts.append(f"{minutes:02d} min" if hours else f"{minutes} min")
    if rest or not parts:
        parts.append(f"{rest:02d} s" if parts else f"{rest} s")
    return " ".join(parts).replace(" ", NO_BREAK)


def medium_words(medium: Medium, *, on_ssd: bool) -> str:
    """Return what bytes go over; within a node it is its local SSD where it has one."""
    return "local SSD" if medium == "local" and on_ssd else _MEDIUM_WORDS[medium]


def chance(ratio: float) -> str:
    """Return a probability in whole percent; draws say neither always nor never."""
    if ratio >= _SURE:
        return f"over 99{NO_BREAK}%"
    if ratio < 1 - _SURE:
        return f"under 1{NO_BREAK}%"
    return f"{round(100 * ratio)}{NO_BREAK}%"
