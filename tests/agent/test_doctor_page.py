"""The page as a person reads it (drawn as the screen "doctor agent"), and as a program does."""

import json
from collections.abc import Callable

from agent.cli.doctor import WIDTH, doctor_lines, document
from agent.doctor import Cost, Examination, HostCheckLine, Leaving

FOUND = Examination(
    node="n14",
    gpus="8 x H100-80GB",
    driver="570.86",
    version="0.1.0",
    user="gpuledger",
    measures=(
        HostCheckLine("yes", "utilization, memory, power, energy, clocks, throttle, PCIe, NVLink, XID, ECC, processes"),
        HostCheckLine("yes", "SM, tensor and DRAM activity (GPM)"),
        HostCheckLine("yes", "disks, network, InfiniBand ports, TCP peers"),
        HostCheckLine("yes", "Slurm jobs (cgroup v2)"),
        HostCheckLine("no", "bytes read by other users' processes: needs CAP_SYS_PTRACE", "optional drop-in " * 8),
        HostCheckLine("no", "rack: not known", 'set rack = "..."'),
        HostCheckLine("bad", "1 of 8 GPUs not responding", "reset or reseat them"),
    ),
    cost=Cost(0.0068, 41_000_000, 2_100_000.0, {}, {}),
    leaves=Leaving(
        connection="one outbound connection, TLS, to collector:8470",
        rows_seconds=10.0,
        bytes_per_hour=2_100_000.0,
        identity=("account", "labels", "name", "owner", "project", "user"),
        identity_mode="full",
        listens_on="127.0.0.1:9477 only",
    ),
)


def test_the_page(golden: Callable[[str, str], None]) -> None:
    """It is what a reviewer signs: each word counts."""
    golden("doctor/agent.txt", "\n".join(doctor_lines(FOUND)) + "\n")


def test_the_page_fits_a_terminal() -> None:
    """80 columns, as on the console of a host in trouble."""
    assert max(map(len, doctor_lines(FOUND))) <= WIDTH


def test_the_document_is_json(golden: Callable[[str, str], None]) -> None:
    """A fleet's reports are gathered by a program."""
    golden("doctor/agent.json", json.dumps(document(FOUND), indent=1) + "\n")


def test_what_is_bad_makes_the_host_unhealthy() -> None:
    """The exit code follows from this."""
    assert not FOUND.healthy
