"""Which runs a seed has: every kind by every cell that makes sense, each clean in one seed and dirty in the next."""

from collections.abc import Iterator, Sequence

from bench.truth.archetypes.registry import ARCHETYPES, Archetype
from bench.truth.draw import Cell

STEPS = (0.3, 3.0, 30.0)
SAMPLINGS = (1, 10)


def cells(seed: int, names: Sequence[str] = (), *, both: bool = False) -> list[Cell]:
    """Return the cells of a seed; with `both`, each clean and dirty. Names pick some kinds of runs only."""
    kinds = [ARCHETYPES[name] for name in names] if names else list(ARCHETYPES.values())
    found = []
    for kind in kinds:
        for number, (step, ranks, every, gpm) in enumerate(_crossed(kind)):
            for dirty in (False, True) if both else ((number + seed) % 2 == 1,):
                found.append(Cell(kind.name, step, ranks, every, gpm, dirty, seed))  # noqa: PERF401 - reads better
    return found


def _crossed(kind: Archetype) -> Iterator[tuple[float | None, int, int, bool]]:
    """Yield the cells so that neighbours differ in what is counted fastest, and parity mixes all of it."""
    for at_step, step in enumerate(STEPS if kind.stepped else (None,)):
        for ranks in kind.ranks:
            for at, every in enumerate(SAMPLINGS):
                order = (True, False) if (at + at_step + kind.ranks.index(ranks)) % 2 == 0 else (False, True)
                for gpm in order:
                    yield step, ranks, every, gpm
