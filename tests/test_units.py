"""The systemd units keep what they promise: no root, no capability, little exposure."""

import shutil
import subprocess
from pathlib import Path

import pytest

SYSTEMD = Path(__file__).parent.parent / "systemd"
ANALYZE = shutil.which("systemd-analyze")

needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not here; make services installs it")


def unit(name: str, directory: Path, drop_in: str | None = None) -> Path:
    """Write a unit as it is installed, with its drop-in; the program it starts is one that exists here."""
    text = (SYSTEMD / name).read_text().replace("/opt/gpuledger/bin/gpuledger", "/bin/true")
    path = directory / name
    path.write_text(text)
    if drop_in:
        (directory / f"{name}.d").mkdir()
        shutil.copy(SYSTEMD / drop_in, directory / f"{name}.d")
    return path


@needs_systemd
@pytest.mark.parametrize(
    ("name", "drop_in", "most"),
    [
        ("gpuledger-agent.service", None, 17),
        ("gpuledger-agent.service", "50-process-io.conf", 20),
        ("gpuledger-server.service", None, 15),
    ],
)
def test_exposure_stays_low(tmp_path: Path, name: str, drop_in: str | None, most: int) -> None:
    """Ten times the exposure that systemd-analyze gives (0 to 10): a unit that runs everywhere must stay near 0."""
    path = unit(name, tmp_path, drop_in)
    command = [str(ANALYZE), "security", "--offline=true", "--no-pager", f"--threshold={most}", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@needs_systemd
@pytest.mark.parametrize("name", ["gpuledger-agent.service", "gpuledger-server.service"])
def test_systemd_knows_every_key(tmp_path: Path, name: str) -> None:
    """A misspelt hardening key is only a warning to systemd, and no hardening."""
    ran = subprocess.run(
        [str(ANALYZE), "verify", "--man=no", str(unit(name, tmp_path))], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert [line for line in ran.stderr.splitlines() if name in line] == []


@pytest.mark.parametrize("name", ["gpuledger-agent.service", "gpuledger-server.service"])
def test_a_daemon_is_nobody_in_particular(name: str) -> None:
    """It runs as its own user without any capability, and wrong settings are not retried for ever."""
    lines = (SYSTEMD / name).read_text().splitlines()
    for wanted in (
        "User=gpuledger",
        "CapabilityBoundingSet=",
        "AmbientCapabilities=",
        "NoNewPrivileges=yes",
        "RestartPreventExitStatus=2",
    ):
        assert wanted in lines
