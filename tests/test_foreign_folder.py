"""Nothing that lies in the folder where somebody stands is run, whatever it is called and whatever PYTHONPATH says."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent import child
from bench.house import PACKAGES, product
from tests.docs.commands import first_yaml
from tests.test_architecture import ROOT, imports, name_of, nodes_of
from tests.waiting import PATIENCE_SECONDS

# Names of ours, of the standard library, of what is installed with us, and of what is looked for and may be absent.
FOREIGN = (
    *PACKAGES, "argparse", "asyncio", "bz2", "csv", "dataclasses", "decimal", "difflib", "hashlib", "http", "inspect",
    "json", "logging", "multiprocessing", "pathlib", "pickle", "platform", "queue", "random", "runpy", "secrets",
    "shutil", "signal", "socket", "sqlite3", "ssl", "statistics", "subprocess", "tempfile", "threading", "tomllib",
    "traceback", "typing", "urllib", "uuid", "webbrowser", "zoneinfo",
    "anyio", "duckdb", "fastapi", "grpc", "jinja2", "mcp", "nanoarrow", "numpy", "orjson", "ortools",
    "pandas", "plotly", "polars", "prometheus_client", "psutil", "pyarrow", "pydantic", "pynvml", "pytz", "rich",
    "sqlalchemy", "statsforecast", "torch", "uvicorn", "yaml", "zstandard",
)  # fmt: skip
WEEK_PATIENCE_SECONDS = 1800.0  # a bound for a whole week through the pipeline, on a machine that many share
MARK = "__import__('os').close(__import__('os').open(__file__ + '.ran', 0o101))\n"
# In one process, since what is protected is a process: each command's help, each module, and where all of it came from.
WALK = """
import gpuledger
import contextlib, gc, importlib, pkgutil, sys, traceback
gc.disable()  # nothing of what is imported is garbage
for name in gpuledger.COMMANDS:
    try:
        ended = gpuledger.main([*name.split(), "--help"])
    except SystemExit as end:
        ended = end.code
    print("==", name, ended)
for room in sys.argv[1:]:
    for module in pkgutil.walk_packages(importlib.import_module(room).__path__, room + "."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # an extra that is not installed
                importlib.import_module(module.name)
for name, module in sorted(sys.modules.items()):
    print(name, getattr(module, "__file__", None))
"""
# What each child is asked here: enough to load all that it needs, and to answer.
ASKED = {
    "simulator": ["--help"],
    "analyzer.capacity.planner.cp_sat": [],
    "collector.store.sqlite_child": ["copy", "none.sqlite", "copy.sqlite"],
    "collector.pipeline.decoding.decoder": ["1000", "10"],
    "gpuledger": ["report", "recording", "none.jsonl"],
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return an empty folder, and one full of foreign code, in places whose paths are equally long."""
    empty, hostile = (tmp_path_factory.mktemp("folder") for _ in range(2))
    for name in FOREIGN:
        if name in PACKAGES:
            (hostile / name).mkdir()
            (hostile / name / "__init__.py").write_text(MARK)
        else:
            (hostile / f"{name}.py").write_text(MARK)
    for folder in (empty, hostile):
        (folder / "jobs.yaml").write_text(first_yaml(ROOT / "docs" / "planning.md"))
    return empty, hostile


def ran(
    command: list[str], folder: Path, pythonpath: str | None, *, patience_seconds: float = PATIENCE_SECONDS
) -> tuple[int, str, str]:
    """Run a command in a folder; return its exit code and what it said, the folder's own name taken out."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if pythonpath is not None:
        environment["PYTHONPATH"] = pythonpath
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=patience_seconds,
    )  # fmt: skip
    out, error = (said.replace(str(folder), "FOLDER") for said in (done.stdout, done.stderr))
    return done.returncode, out, error


def held_apart(command: list[str], folders: tuple[Path, Path], *, kept: tuple[str | None, ...] = (None, ".")) -> str:
    """Hold a command in the hostile folder to the same in the empty one; return what it printed there."""
    empty, hostile = folders
    expected = ran(command, empty, None)
    for pythonpath in kept:
        assert ran(command, hostile, pythonpath) == expected, pythonpath
        assert [mark.name for mark in hostile.rglob("*.ran")] == []
    return expected[1]


def test_each_command_and_each_module_is_ours_or_installed(folders: tuple[Path, Path]) -> None:
    """With -c the working folder stands first on the path, as with -m; PYTHONPATH names it once more."""
    said = held_apart([sys.executable, "-c", WALK, *PACKAGES], folders, kept=(".",))
    assert "== agent doctor 0" in said
    assert "analyzer.capacity.planner.cp_sat" in said


def test_a_command_that_starts_a_solver_has_its_proof(folders: tuple[Path, Path]) -> None:
    """The solver's process ran the folder's code, or was lost without a word."""
    said = held_apart([sys.executable, "-m", "gpuledger", "capacity", "plan", "jobs.yaml", "--json"], folders)
    assert '"is_optimal": true' in said


@pytest.mark.parametrize("module", ASKED)
def test_each_child_is_ours(module: str, folders: tuple[Path, Path]) -> None:
    """Whichever command starts it, it is started by this line, which has no -m: PYTHONPATH alone names the folder."""
    held_apart(child.command(module, *ASKED[module]), folders, kept=(".",))


def mentioning(*words: str) -> list[Path]:
    """Return the files of the product that have one of these words at all: to parse the others takes seconds."""
    return [path for path in product() if any(word in path.read_text() for word in words)]


def test_each_child_that_the_product_starts_is_among_them() -> None:
    """Whoever starts another one adds it to the table above."""
    started = {
        call.args[0].value
        for path in mentioning("child.command", "SolverProcess")
        for call in nodes_of(path)
        if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant)
        if ast.unparse(call.func) in ("child.command", "SolverProcess")
    }
    assert started == set(ASKED)


def test_a_python_is_started_in_one_place() -> None:
    """A line of one's own would forget what that place knows."""
    wrong = {
        name_of(path)
        for path in mentioning("multiprocessing", "ProcessPoolExecutor", "executable")
        if any("multiprocessing" in name or "ProcessPoolExecutor" in name for name in imports(path))
        or any(ast.unparse(node) == "sys.executable" for node in nodes_of(path) if isinstance(node, ast.Attribute))
        or "sys.executable" in imports(path)
    }
    assert wrong == {"agent/child.py"}


@pytest.mark.soak
def test_the_demo_runs_among_foreign_code(folders: tuple[Path, Path]) -> None:
    """Collector, decoders, analysis, solvers and the simulated fleet in one run. Its report tells of the same week."""
    code = [sys.executable, "-m", "gpuledger", "demo", "--once"]
    empty, hostile = (
        ran(code, folder, pythonpath, patience_seconds=WEEK_PATIENCE_SECONDS)
        for folder, pythonpath in zip(folders, (None, "."), strict=True)
    )
    assert (hostile[0], hostile[1]) == (empty[0], empty[1])
    assert [mark.name for mark in folders[1].rglob("*.ran")] == []
