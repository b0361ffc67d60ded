"""When a plan ends, as a distribution."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outlook:
    """Quantiles of the plan's end, in seconds from its start, over so many draws.

    `on_time_ratio` is the share of draws that keep every deadline, the tasks' own too; None where there is none.
    `tasks_without_spread` have one duration in every draw, because nobody said how it varies: the spread is then too
    narrow. `is_contended`: transfers that share a link slow each other down.
    """

    p10_seconds: int
    p50_seconds: int
    p90_seconds: int
    on_time_ratio: float | None
    draws: int
    tasks_without_spread: tuple[str, ...] = ()
    is_contended: bool = False
