"""What each role imports, and what it declares: neither more nor less."""

import ast
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from sys import stdlib_module_names
from typing import Any

import pytest

from tests.test_architecture import nodes_of

ROOT = Path(__file__).parent.parent
OURS = {"agent", "analyzer", "collector", "dashboards", "simulator", "gpuledger"}

# Where files of each role lie; a file is of the role whose place is the longest. `agent` is what has no extra, and all
# but that and `kubernetes` have what the server has.
PLACES = {
    "agent": ("agent/", "gpuledger.py"),
    "kubernetes": ("agent/attribution/kubelet.py",),
    "demo": ("simulator/",),
    "server": ("collector/", "analyzer/", "dashboards/"),
    "fleet": ("collector/registry/tables.py",),
    "assistant": ("analyzer/interfaces/mcp/",),
    "planning": ("analyzer/capacity/planner/cp_sat.py",),
    "forecast": ("analyzer/finops/forecast.py",),
    "dev": ("dashboards/grafana/",),
}

# Modules of the standard library of a Python that this one is not, and modules whose distribution is not here.
LATER = {"compression"}
NOT_HERE = {"tomli": "tomli", "statsforecast": "statsforecast"}

# What is declared and imported nowhere, and what it is there for.
UNIMPORTED = {
    "duckdb-extension-ducklake": "a file that DuckDB loads (collector/store/lake.py)",
    "duckdb-extension-httpfs": "a file that DuckDB loads",
    "duckdb-extension-postgres-scanner": "a file that DuckDB loads",
    "duckdb-extension-sqlite-scanner": "a file that DuckDB loads",
    "httptools": "uvicorn's protocol, of which ours is made (collector/http/server.py)",
    "pytz": "DuckDB makes times with zones of it",
    "tzdata": "zones for zoneinfo where a host has none",
    "uvloop": "uvicorn's loop",
}


def normal(name: str) -> str:
    """Return the one spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def declared() -> dict[str, frozenset[str]]:
    """Return the distributions that each role declares by itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs: dict[str, Any] = {"agent": project["dependencies"], **project["optional-dependencies"]}
    return {role: frozenset(normal(re.split(r"[ <>=!~;\[]", one)[0]) for one in lines) for role, lines in needs.items()}


def brought(role: str) -> frozenset[str]:
    """Return the distributions that whoever installs a role may count on."""
    roles = {
        "agent": ("agent",),
        "kubernetes": ("agent", "kubernetes"),
        "server": ("agent", "server"),
        "dev": ("agent", "server", "dev"),
    }
    return frozenset().union(*(declared()[one] for one in roles.get(role, ("agent", "server", role))))


@cache
def imported() -> dict[str, dict[str, set[str]]]:
    """Return by role and distribution the files that import it, also where a function does, or does so by name."""
    owners, found = packages_distributions(), {role: dict[str, set[str]]() for role in PLACES}
    for path in sorted([ROOT / "gpuledger.py", *(each for room in OURS for each in (ROOT / room).rglob("*.py"))]):
        name = path.relative_to(ROOT).as_posix()
        for module in modules(nodes_of(path)) - OURS - LATER - stdlib_module_names:
            # `google` is of several, of which one is ours.
            makers = {normal(one) for one in owners.get(module, [NOT_HERE.get(module, module)])}
            maker = (makers & frozenset().union(*declared().values()) or makers).pop()
            found[role_of(name)].setdefault(maker, set()).add(name)
    return found


def modules(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the first names of all modules that a file imports."""
    return {name.partition(".")[0] for node in nodes for name in _imports(node)}


def _imports(node: ast.AST) -> list[str]:
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom(module=str() as module):
            return [module]
        case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str() as module), *_]):
            return [module]
    return []


def role_of(name: str) -> str:
    """Return the role that a file is of."""
    return max((len(place), role) for role, places in PLACES.items() for place in places if name.startswith(place))[1]


@pytest.mark.parametrize("role", PLACES)
def test_what_is_imported_is_declared(role: str) -> None:
    """What another package happens to bring along is gone with its next release."""
    assert {maker: files for maker, files in imported()[role].items() if maker not in brought(role)} == {}


@pytest.mark.parametrize("role", [role for role in PLACES if role != "dev"])
def test_what_is_declared_is_imported(role: str) -> None:
    """What nobody uses is still installed, watched for advisories and shipped."""
    used = {maker for each in imported().values() for maker in each}
    assert declared()[role] - used - set(UNIMPORTED) - {"gpuledger"} == set()


def test_what_is_not_imported_is_declared_for_a_reason() -> None:
    """A reason that outlives its package is none."""
    used = {maker for each in imported().values() for maker in each}
    assert set(UNIMPORTED) & used == set()
    assert set(UNIMPORTED) <= frozenset().union(*declared().values())
