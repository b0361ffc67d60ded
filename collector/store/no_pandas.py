"""Where there is no pandas, Python knows it at once: DuckDB asks for it twice for every parameter of a statement.

Each time Python looks through all of its path: a statement with ten parameters took 2.0 ms instead of 0.5.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

NAME = "pandas"


class _NoPandas(MetaPathFinder):
    """Asked before all who look at disks."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if fullname == NAME:
            raise ModuleNotFoundError(f"No module named {NAME!r}", name=NAME)
        return None


def spare_the_search() -> None:
    """Look for pandas once; where it is not installed, nobody in this process looks again."""
    if any(isinstance(finder, _NoPandas) for finder in sys.meta_path):
        return
    if NAME not in sys.modules and find_spec(NAME) is None:
        sys.meta_path.insert(0, _NoPandas())
