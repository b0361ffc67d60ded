"""Figures of unit economics as people read them: prices of any size, counts in few characters."""

from math import floor, log10

_DIGITS = 3  # of a unit's price: 0.00373


def digits(value: float) -> str:
    """Return an amount with three digits that count: 0.00373, 0.549, 734."""
    if value <= 0:
        return "0"
    return f"{value:,.{max(0, _DIGITS - 1 - floor(log10(value)))}f}"


def short(count: int) -> str:
    """Return a count of work in few characters: 792 M."""
    value = float(count)
    for unit in ("", " k", " M", " bn", " tn", " qn"):
        if value < 1000 or unit == " qn":
            return f"{value:.0f}{unit}" if value >= 100 or not unit else f"{value:.3g}{unit}"
        value /= 1000
    raise AssertionError("BUG: the loop ends with qn")
