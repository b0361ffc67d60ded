"""The systemd units keep what they promise: no root, no capability, little exposure."""

import shutil
import subprocess
from pathlib import Path

import pytest

from collector.http.server import STOPPING_MICROSECONDS, STOPPING_SECONDS
from tests.waiting import PATIENCE_SECONDS

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
        ("gpuledger-serve.service", None, 11),
        ("gpuledger-serve.service", "50-credentials.conf", 11),
        ("gpuledger-mail.service", None, 11),
    ],
)
def test_exposure_stays_low(tmp_path: Path, name: str, drop_in: str | None, most: int) -> None:
    """Ten times the exposure that systemd-analyze gives (0 to 10): a unit that runs everywhere must stay near 0."""
    path = unit(name, tmp_path, drop_in)
    command = [str(ANALYZE), "security", "--offline=true", "--no-pager", f"--threshold={most}", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@needs_systemd
@pytest.mark.parametrize(
    ("name", "drop_in"),
    [
        ("gpuledger-agent.service", None),
        ("gpuledger-serve.service", None),
        ("gpuledger-serve.service", "50-credentials.conf"),
        ("gpuledger-mail.service", None),
        ("gpuledger-mail.timer", None),
    ],
)
def test_systemd_knows_every_key(tmp_path: Path, name: str, drop_in: str | None) -> None:
    """A misspelt hardening key is only a warning to systemd, and no hardening."""
    command = [str(ANALYZE), "verify", "--man=no", str(unit(name, tmp_path, drop_in))]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ran.returncode == 0, ran.stderr
    assert "Unknown key" not in ran.stderr
    assert [line for line in ran.stderr.splitlines() if name in line] == []


@pytest.mark.parametrize("name", ["gpuledger-agent.service", "gpuledger-serve.service", "gpuledger-mail.service"])
def test_a_daemon_is_nobody_in_particular(name: str) -> None:
    """It runs as its own user without any capability, and wrong settings are not retried for ever."""
    lines = (SYSTEMD / name).read_text().splitlines()
    for wanted in (
        "User=gpuledger",
        "CapabilityBoundingSet=",
        "AmbientCapabilities=",
        "NoNewPrivileges=yes",
    ):
        assert wanted in lines
    kept = [line.partition("=")[2].split() for line in lines if line.startswith("RestartPreventExitStatus=")]
    assert "2" in kept[0]


def test_the_server_is_given_the_time_that_it_asks_for() -> None:
    """It says when it is ready and when it ends; what it asks for at the end is what the unit allows anyway."""
    settings = dict(
        line.split("=", 1)
        for line in (SYSTEMD / "gpuledger-serve.service").read_text().splitlines()
        if "=" in line and not line.startswith("#")
    )
    assert (settings["Type"], settings["NotifyAccess"]) == ("notify", "main")
    assert int(settings["TimeoutStopSec"]) * 1_000_000 == STOPPING_MICROSECONDS
    assert int(settings["TimeoutStopSec"]) > STOPPING_SECONDS


@needs_systemd
def test_the_weekly_mail_comes_after_the_week_has_closed() -> None:
    """Weeks close 48 h after their end, and a mail cannot be taken back; a host that was off catches up."""
    timer = (SYSTEMD / "gpuledger-mail.timer").read_text().splitlines()
    assert "Persistent=true" in timer
    (when,) = [line.partition("=")[2] for line in timer if line.startswith("OnCalendar=")]
    sunday = "2026-11-15 23:59:59"
    command = [str(ANALYZE), "calendar", "--base-time", sunday, when]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, env={"TZ": "UTC"})
    assert ran.returncode == 0, ran.stderr
    assert "2026-11-18 07:00:00" in ran.stdout
