"""What is installed: one wheel with everything in it, names that are ours alone, and little on a GPU host."""

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("agent", "analyzer", "collector", "dashboards")
DATA_SUFFIXES = {".sql", ".csv", ".html", ".css", ".js", ".svg", ".txt", ".toml"}
# The last two stand in for the standard library of newer Pythons.
AGENT_NEEDS = {"nanoarrow", "nvidia-ml-py", "prometheus-client", "psutil", "backports-zstd", "tomli"}
LOCKS = [f"requirements-{role}.lock" for role in ("agent", "kubernetes", "server", "fleet", "full")]
FLEETS_ALONE = {"duckdb-extension-httpfs", "duckdb-extension-postgres-scanner", "psycopg", "psycopg-binary"}


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
    """The names are plain words: two owners of one folder would overwrite each other."""
    assert set(packages_distributions().get(name, [])) <= {"gpuledger"}


def test_the_wheel_holds_every_file_that_the_code_reads(wheel: Path) -> None:
    """SQL, templates and list prices are code too; a wheel without them fails on its first query."""
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in {".py", *DATA_SUFFIXES} and "__pycache__" not in path.parts
    }
    assert wanted - inside == set()
    assert {"gpuledger.py", "collector/schema/0001_contract.sql", "analyzer/pricing/list_prices.csv"} <= inside


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    """Tests, data and documents do not belong in site-packages."""
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {*PACKAGES, "gpuledger.py"}


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
    assert {"mcp", "ortools", "highspy"} <= full - fleet
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
