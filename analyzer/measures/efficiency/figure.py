"""A figure that is known, or the words why it is not."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, or why there is none: never both, never neither. The unit is said where a figure is made."""

    value: float | None
    because: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.because is None):
            raise ValueError("BUG: a figure is a number or a reason")


def withheld(because: str) -> Figure:
    """Return a figure that is not known, with the reason: words that may follow "n/a: "."""
    return Figure(None, because)
