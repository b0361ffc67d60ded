"""What is installed: one wheel with everything in it, one name that is ours alone, and little on a GPU host."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.docs.commands import first_yaml

ROOT = Path(__file__).parent.parent
PACKAGES = ("agent", "analyzer", "collector", "dashboards", "simulator")
DATA_SUFFIXES = {".sql", ".csv", ".html", ".css", ".js", ".svg", ".txt", ".toml"}
# The last two stand in for the standard library of newer Pythons.
AGENT_NEEDS = {"nanoarrow", "nvidia-ml-py", "prometheus-client", "psutil", "backports-zstd", "tomli"}
LOCKS = [f"requirements-{role}.lock" for role in ("agent", "kubernetes", "server", "fleet", "full")]
FLEETS_ALONE = {"duckdb-extension-httpfs", "duckdb-extension-postgres-scanner", "psycopg", "psycopg-binary"}
# What an installed Python is told: load each command, and print the files of our modules; print the line of a child.
LOADED = """
import gpuledger, sys
for command in gpuledger.COMMANDS.values():
    command.load()
ours = [module for name, module in sys.modules.items() if name.partition(".")[0] in sys.argv[1:]]
print(*(module.__file__ for module in ours if module.__file__), sep="\\n")
"""
CHILD = """
import gpuledger, sys
from agent import child
print(*child.command(sys.argv[1]), sep="\\n")
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from this tree, as a release does."""
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    (built,) = directory.glob("*.whl")
    return built


@pytest.mark.parametrize("name", [*PACKAGES, "gpuledger"])
def test_no_other_distribution_owns_our_names(name: str) -> None:
    """The names are plain words: in a checkout two owners of one would be in each other's way."""
    assert set(packages_distributions().get(name, [])) <= {"gpuledger"}


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment in which the wheel is installed, beside what it needs."""
    home = tmp_path_factory.mktemp("environment") / "env"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    install = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", str(wheel)]
    command = [sys.executable, "-m", "pip", "--python", str(python), *install]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    (own,) = (home / "lib").glob("python3*/site-packages")
    assert {each.name.partition("-")[0] for each in own.iterdir()} == {"gpuledger"}
    # A folder that a .pth names is searched, and its own .pth, that of this checkout, is not read.
    (own / "needed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def said(python: Path, folder: Path, *words: str, pythonpath: str = "") -> str:
    """Return what a Python prints in a folder."""
    environment = os.environ | {"PYTHONPATH": pythonpath}
    ran = subprocess.run([python, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_an_editable_installation_is_the_checkout(tmp_path: Path) -> None:
    """Who works on it edits what runs: nothing of ours is copied, and a user's own agent/ is no matter."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    (own,) = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    (own / "needed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    install = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-build-isolation"]
    command = [sys.executable, "-m", "pip", "--python", str(python), *install, "--editable", str(ROOT)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert not (own / "gpuledger").exists()
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "__init__.py").touch()
    where = said(python, tmp_path, "-c", "import gpuledger; print(gpuledger.__file__)")
    assert where == str(ROOT / "gpuledger.py")
    script = str(python.with_name("gpuledger"))
    assert said(python, tmp_path, script, "--version", pythonpath=".") == "gpuledger 0.1.0"


def test_installed_beside_a_users_own_agent_both_work(installed: Path, tmp_path: Path) -> None:
    """Training code that owns an agent/ broke once we were installed, and we in its folder."""
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "__init__.py").write_text("class Agent: ...\n")
    (tmp_path / "train.py").write_text("from agent import Agent\nprint(Agent.__module__)\n")
    (tmp_path / "jobs.yaml").write_text(first_yaml(ROOT / "docs" / "planning.md"))
    assert said(installed, tmp_path, "train.py") == "agent"
    script = str(installed.with_name("gpuledger"))
    for words in (["-m", "gpuledger"], [script]):
        assert said(installed, tmp_path, *words, "--version", pythonpath=".") == "gpuledger 0.1.0"
    plan = said(installed, tmp_path, script, "capacity", "plan", "jobs.yaml", "--json", pythonpath=".")
    assert json.loads(plan)["is_optimal"]  # by a solver in a process of its own


def test_installed_each_command_and_child_is_found(installed: Path, tmp_path: Path) -> None:
    """By the wheel's own files, and by none of this checkout."""
    files = said(installed, tmp_path, "-c", LOADED, *PACKAGES).splitlines()
    assert len(files) > 100
    assert [file for file in files if "/gpuledger/rooms/" not in file] == []
    for module, first in (("gpuledger", "gpuledger: where every GPU-second went"), ("simulator", "usage:")):
        line = said(installed, tmp_path, "-c", CHILD, module).splitlines()
        assert said(installed, tmp_path, *line[1:], "--help").startswith(first)


def test_the_wheel_holds_every_file_that_the_code_reads(wheel: Path) -> None:
    """SQL, templates and list prices are code too; a wheel without them fails on its first query."""
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        f"gpuledger/rooms/{path.relative_to(ROOT).as_posix()}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in {".py", *DATA_SUFFIXES} and "__pycache__" not in path.parts
    }
    assert wanted - inside == set()
    rooms = ("collector/store/schema/0001_contract.sql", "analyzer/prices/list_prices.csv")
    assert {"gpuledger/__init__.py", "gpuledger/__main__.py", *(f"gpuledger/rooms/{room}" for room in rooms)} <= inside


def test_the_wheel_brings_the_licences_of_what_is_in_it(wheel: Path) -> None:
    """Its own, those of the tables of others, and whom they name."""
    check = [sys.executable, str(ROOT / ".ci" / "licences.py"), str(wheel)]
    done = subprocess.run(check, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    """Tests, data and documents do not belong in site-packages."""
    names = [name.split("/") for name in zipfile.ZipFile(wheel).namelist()]
    assert {name[0] for name in names if not name[0].endswith((".dist-info", ".data"))} == {"gpuledger"}
    assert {name[1:3] for name in map(tuple, names) if name[0].endswith(".data")} <= {("data", "share")}
    assert {name[1] for name in names if name[0] == "gpuledger"} == {"__init__.py", "__main__.py", "py.typed", "rooms"}
    assert {name[2] for name in names if name[:2] == ["gpuledger", "rooms"]} == set(PACKAGES)


def test_a_gpu_host_needs_at_most_six_packages() -> None:
    """What runs beside other people's work is small enough to be audited; the rest is the server's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {re.split(r"[<>= \[]", need)[0].replace(".", "-") for need in project["dependencies"]} == AGENT_NEEDS
    assert set(locked("requirements-agent.lock")) == AGENT_NEEDS


def test_beside_a_kubelet_it_needs_two_more() -> None:
    """gRPC is a large library: a host without a kubelet has no use for it."""
    assert set(locked("requirements-kubernetes.lock")) == AGENT_NEEDS | {"grpcio", "typing-extensions"}


def test_what_fleets_alone_need_is_not_on_a_plain_site() -> None:
    """A site of one collector has no PostgreSQL and no object store: 73 MB of 550 were for them."""
    server, fleet, full = (set(locked(f"requirements-{role}.lock")) for role in ("server", "fleet", "full"))
    assert fleet - server == FLEETS_ALONE
    assert {"mcp", "ortools"} <= full - fleet
    assert server < fleet < full


@pytest.mark.parametrize("name", LOCKS)
def test_a_roles_lock_is_a_part_of_the_whole(name: str) -> None:
    """What is tested is what is installed, to the version; tomli is for a Python that the whole is not made for."""
    whole = locked("requirements.lock")
    assert {name: pins for name, pins in locked(name).items() if not pins <= whole.get(name, set())}.keys() <= {"tomli"}


@pytest.mark.parametrize("name", ["requirements.lock", *LOCKS])
def test_a_lock_pins_and_names_no_index(name: str) -> None:
    """Each file is known by its hash, wherever it comes from."""
    text = (ROOT / name).read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) == sum(map(len, locked(name).values()))
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text


def locked(name: str) -> dict[str, set[str]]:
    """Return the versions that a lock file pins, by package: more than one where Pythons differ."""
    pinned: dict[str, set[str]] = {}
    for package, version in re.findall(r"^([a-z0-9._-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE):
        pinned.setdefault(package, set()).add(version)
    return pinned
