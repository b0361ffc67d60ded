"""The agent as people install it, on every Python that is here: python bench/bench_installs.py [--pythons PATH...].

For each Python an environment of its own, the agent's lock with its hashes, the wheel, all compiled as pip does; then
what lies there is added up, by length and by blocks of the disk, `gpuledger agent --once --json` must tell of this
host, and `gpuledger agent` must begin as a daemon. With `--tests` the agent's tests run on each. Wheels for the hosts
of docs/hosts.md are fetched, for processors too that this machine has not: a lock that lacks one is seen here.
"""

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.machine import ROOT, add_record, keep, machine, told

LOCK = ROOT / "requirements-agent.lock"
PYTHONS = [f"python3.{minor}" for minor in range(10, 16)]
BEGUN = "metrics on port"  # of the first line of an agent's log
TEST_TOOLS = (
    "pytest", "pytest-xdist", "hypothesis", "hatchling", "editables",
    "aiosmtpd", "cryptography", "grpcio", "httpx", "pyarrow", "pyyaml",
)  # fmt: skip
MOST_BYTES = 30_000_000
BLOCK_BYTES = 512  # of st_blocks, whatever the file system's are
WHEELS = [
    (python, processor) for python in ("3.10", "3.11", "3.12", "3.13", "3.14") for processor in ("x86_64", "aarch64")
]


def found(names: Sequence[str]) -> list[Path]:
    """Return the Pythons of these names or places that run here, the first of each version."""
    by_version: dict[str, Path] = {}
    for name in names:
        if (place := shutil.which(name)) is not None:
            asked = subprocess.run([place, "-c", "import sys; print(sys.version)"], capture_output=True, text=True)
            if asked.returncode == 0:  # a shim may stand for a Python that is not there
                by_version.setdefault(asked.stdout, Path(place))
    return list(by_version.values())


def installed(python: Path, wheel: Path, directory: Path) -> dict[str, Any]:
    """Return what an agent of this Python takes and tells; `works` is false where it cannot be installed or run."""
    subprocess.run([python, "-m", "venv", "--without-pip", directory], check=True)
    within = directory / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(within), "install", "--quiet", "--no-deps"]
    for what in (["--require-hashes", "--only-binary", ":all:", "-r", str(LOCK)], ["--no-index", str(wheel)]):
        ran = subprocess.run([*pip, *what], capture_output=True, text=True)
        if ran.returncode != 0:
            return {
                "python": _version(within),
                "works": False,
                "bytes": None,
                "disk_bytes": None,
                "why": ran.stderr.strip()[-300:],
            }
    there = [path.lstat() for path in directory.rglob("*")]
    sizes = {
        "bytes": sum(each.st_size for each in there),
        "disk_bytes": sum(BLOCK_BYTES * each.st_blocks for each in there),
    }
    ran = subprocess.run(
        [directory / "bin" / "gpuledger", "agent", "--once", "--json"], cwd="/", capture_output=True, text=True
    )
    tables = json.loads(ran.stdout)["tables"] if ran.returncode == 0 else {}
    begun = _daemon(directory)
    works = bool(tables.get("host_samples")) and BEGUN in begun
    why = "" if works else (ran.stderr + begun).strip()[-300:]
    return {"python": _version(within), "works": works, **sizes, "why": why}


def _daemon(directory: Path) -> str:
    """Return what an agent logs that is told to end as soon as it has begun; nobody listens where it sends."""
    words = [str(directory / "bin" / "gpuledger"), "agent", "--collector", "http://127.0.0.1:9"]
    words += ["--state", str(directory / "state"), "--listen", "127.0.0.1:0", "--spool", str(directory / "spool")]
    with subprocess.Popen(words, cwd="/", stderr=subprocess.PIPE, text=True) as agent:
        assert agent.stderr is not None
        first: str = agent.stderr.readline()
        agent.terminate()
        rest: str = agent.stderr.read()
    return first + rest


def tested(python: Path, directory: Path) -> dict[str, Any]:
    """Return how the agent's tests end on a Python: what they need comes in the newest release that has it."""
    subprocess.run([python, "-m", "venv", directory], check=True)
    within = str(directory / "bin" / "python")
    pip = [within, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--require-hashes", "-r", str(LOCK)], check=True)
    subprocess.run([*pip, *TEST_TOOLS], check=True)
    subprocess.run([*pip, "--no-build-isolation", "--no-deps", "-e", str(ROOT)], check=True)
    asked = [within, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", "tests/agent"]
    ran = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
    print(ran.stdout[-2_000:] if ran.returncode else "", end="")
    return {
        "python": _version(Path(within)),
        "passed": ran.returncode == 0,
        "closing": ran.stdout.strip().splitlines()[-1],
    }


def has_wheels(python: str, processor: str, directory: Path) -> bool:
    """Return whether each line of the lock has a wheel for this Python and processor, on a glibc of 2.28 or newer."""
    asked = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    asked += ["--python-version", python, "--implementation", "cp", "-d", str(directory / f"{python}-{processor}")]
    for glibc in ("2_28", "2_17"):
        asked += ["--platform", f"manylinux_{glibc}_{processor}"]
    # pip asks the markers of its own Python: those of the other are asked here.
    asked += ["--platform", f"manylinux2014_{processor}", *_lines_for(python)]
    return subprocess.run(asked, capture_output=True).returncode == 0


def _lines_for(python: str) -> list[str]:
    version = tuple(map(int, python.split(".")))
    bounds = {"backports-zstd": version < (3, 14), "tomli": version < (3, 11)}
    pins = [line.split()[0] for line in LOCK.read_text().splitlines() if "==" in line and not line.startswith(" ")]
    return [pin for pin in pins if bounds.get(pin.partition("==")[0], True)]


def _version(python: Path) -> str:
    return subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]


def main() -> int:
    """Install, ask, print and keep the figures; 1 where one does not work or takes more than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pythons", nargs="+", default=PYTHONS, help="names or places of Pythons")
    parser.add_argument("--tests", action="store_true", help="the agent's tests, too, on each: three minutes more each")
    add_record(parser)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as temporary:
        directory = Path(temporary)
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        (wheel,) = directory.glob("*.whl")
        pythons = list(enumerate(found(asked.pythons)))
        tries = [installed(python, wheel, directory / str(number)) for number, python in pythons]
        tests = [tested(python, directory / f"tests-{number}") for number, python in pythons if asked.tests]
        wheels = {f"{python} {processor}": has_wheels(python, processor, directory) for python, processor in WHEELS}
    print("| Python | `agent --once --json` | installed | on disk |", "|---|---|---|---|", sep="\n")
    for each in tries:
        sizes = ("–" if each[size] is None else f"{each[size] / 1e6:.1f} MB" for size in ("bytes", "disk_bytes"))
        print(f"| {each['python']} | {'works' if each['works'] else each['why']} | {' | '.join(sizes)} |")
    print(*(f"wheels for {name}: {'all' if all_there else 'NOT all'}" for name, all_there in wheels.items()), sep="\n")
    bars = {
        "the agent works on each Python that is here": bool(tries) and all(each["works"] for each in tries),
        "at most 30 MB with all that it needs": all(each["bytes"] and each["bytes"] <= MOST_BYTES for each in tries),
        "wheels for each Python and processor": all(wheels.values()),
    }
    if tests:
        print(*(f"tests on {each['python']}: {each['closing']}" for each in tests), sep="\n")
        bars["the agent's tests are green on each"] = all(each["passed"] for each in tests)
    about = machine() | {"libc": " ".join(platform.libc_ver())}
    keep(
        "installs",
        {"machine": about, "tries": tries, "tests": tests, "wheels": wheels, "bars": bars},
        record=asked.record,
    )
    return told(bars)


if __name__ == "__main__":
    sys.exit(main())
