"""The tables of the campaign, printed and in the README, made from the raw tallies alone."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from analyzer.states import STATES
from bench.truth.tally import Key, Tally, summed

MS_PER_HOUR = 3_600_000
SHORT = {
    "unallocated": "unalloc",
    "unobserved": "unobs",
    "starting": "start",
    "checkpointing": "ckpt",
    "headroom": "headrm",
    "held_idle": "idle",
    "communicating": "comm",
    "throttled": "throttl",
    "underused": "underus",
    "starved": "starved",
    "unexplained": "unexpl",
    "productive": "product",
    "lost_work": "lost",
    "broken": "broken",
}


def confusion(tallies: Iterable[Tally]) -> str:
    """Return the GPU-hours by true state (rows) and booked state (columns)."""
    total = summed(tallies).confusion
    pairs = {tuple(pair.split(">")): ms for pair, ms in total.items()}
    columns = [state for state in STATES if any(booked == state for _, booked in pairs)]
    lines = [f"{'true / booked':16}" + "".join(f"{SHORT[state]:>9}" for state in columns) + f"{'right':>8}"]
    for state in STATES:
        row = {booked: ms for (true, booked), ms in pairs.items() if true == state}
        if row:
            hours = "".join(f"{row.get(column, 0) / MS_PER_HOUR:9,.1f}" for column in columns)
            lines.append(f"{state:16}{hours}{row.get(state, 0) / sum(row.values()):8.1%}")
    return "\n".join(lines)


def by_archetype(tallies: Mapping[Key, Tally]) -> str:
    """Return for each kind of run what it truly was and what it was booked as, in shares of its GPU time."""
    lines = []
    for name in sorted({key[0] for key in tallies}):
        one = summed(tally for key, tally in tallies.items() if key[0] == name)
        total = sum(one.confusion.values())
        true, booked = _margins(one.confusion)
        wrong = Counter({pair: ms for pair, ms in one.confusion.items() if len(set(pair.split(">"))) == 2})
        worst = ", ".join(f"{pair} {ms / total:.0%}" for pair, ms in wrong.most_common(3) if ms > 0.02 * total)
        lines.append(
            f"{name:30}{one.runs:5} runs  starved {one.starved:4} booked {one.booked_starved:4} both {one.both_starved:4}"
            f" cause {one.right_cause:4}  right {1 - wrong.total() / total:5.0%}  {worst}"
        )
    return "\n".join(lines)


def _margins(pairs: Counter[str]) -> tuple[Counter[str], Counter[str]]:
    true: Counter[str] = Counter()
    booked: Counter[str] = Counter()
    for pair, ms in pairs.items():
        first, _, second = pair.partition(">")
        true[first] += ms
        booked[second] += ms
    return true, booked


def share(part: float, whole: float) -> float | None:
    """Return the part of the whole, or None where there is no whole."""
    return part / whole if whole else None


Choice = Callable[[Key], bool]
