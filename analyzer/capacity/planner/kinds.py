"""Which kind of GPU a name means: a duration of one kind is never taken for another."""

from collections.abc import Iterable
from functools import lru_cache

from agent.wire.sku import sku


def means(said: str, kind: str) -> bool:
    """Say whether a name, as people write it ("H100", "NVIDIA H100 80GB HBM3"), is of a kind of the ledger."""
    return _words(said) <= _words(kind)


def meant(said: Iterable[str], kind: str) -> str | None:
    """Return which of the names is of a kind, the most exact one; None where none is."""
    return max((name for name in said if means(name, kind)), key=lambda name: len(_words(name)), default=None)


@lru_cache(maxsize=4096)
def _words(name: str) -> frozenset[str]:
    return frozenset(sku(name, None).casefold().split("-"))
