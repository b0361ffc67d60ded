"""Where there is no pandas, Python knows it at once: DuckDB asks for it twice for every parameter of a statement.

Each time Python looks through all of its path: a statement with ten parameters took 2.0 ms instead of 0.5. It asks for
dateutil as well, which pandas would bring.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

_NAMES = ("pandas", "dateutil")


class _Absent(MetaPathFinder):
    """Asked before all who look at disks."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if fullname in self._names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def spare_the_search() -> None:
    """Look for each of them once; what is not installed, nobody in this process looks for again."""
    if any(isinstance(finder, _Absent) for finder in sys.meta_path):
        return
    absent = frozenset(name for name in _NAMES if name not in sys.modules and find_spec(name) is None)
    if absent:
        sys.meta_path.insert(0, _Absent(absent))
