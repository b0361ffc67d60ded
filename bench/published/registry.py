"""All kinds of the second generator, and the runs that a seed makes of them."""

from collections.abc import Iterator, Sequence

from bench.published import board_kinds, exchange_kinds, fed_kinds, input_kinds, life_kinds
from bench.published.setting import KINDS, Setting, Story

__all__ = ["KINDS", "runs"]
MODULES = (input_kinds, exchange_kinds, board_kinds, life_kinds, fed_kinds)


def runs(seed: int, names: Sequence[str] = ()) -> Iterator[tuple[str, Setting, Story]]:
    """Yield each run's id, where it is, and what it did. Names and hosts say nothing of its kind."""
    number = 0
    for name, of in KINDS.items():
        for copy in range(of.copies):
            number += 1
            if not names or name in names:
                setting = Setting(seed, number, of, copy)
                story = of.make(setting)
                yield f"{story.scheduler}/alpha/{4000 + number}", setting, story
