"""Real disks: full, out of inodes, gone read-only, or with a limit on files. Each in a mount namespace of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
NAMESPACES = (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"])

BEGIN = """
import json, os, resource, subprocess, sys
from pathlib import Path
from agent.errors import SpoolError
from agent.spool.queue import open_spool
from tests.agent.batches import bulky, identity
place = Path(sys.argv[1])
spool = open_spool(place / "spool", 10**9, 10**9)

def append(count, size=20_000):
    return [spool.append(lambda stream, sequence: bulky(stream, sequence, size)) for _ in range(count)]

def take():
    taken = []
    while (found := spool.oldest(0)) is not None:
        spool.acknowledge(found[0], found[0])
        taken.append(identity(found[1])[1])
    return taken

def on_disk():
    return sorted(int(path.name[:20]) for path in (place / "spool" / spool.stream).glob("*.batch"))

def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)

def go_read_only():  # the batches alone: the lock is open for writing, and keeps the whole from being remounted
    stream = place / "spool" / spool.stream
    mount("--bind", stream, stream)
    mount("-o", "remount,bind,ro", stream)
    return stream

said = {}
"""
END = "\nprint(json.dumps(said))\n"


def on_a_disk(script: str, place: Path, options: str) -> dict[str, Any]:
    """Run a script on a small disk of its own, mounted where nobody else sees it; return what it said."""
    mounted = f'mount -t tmpfs -o {options} gpuledger-test "$0" && exec "$@"'
    inner = [sys.executable, "-c", BEGIN + script + END, str(place)]
    for namespace in NAMESPACES:
        try:
            possible = subprocess.run(
                [*namespace, "sh", "-c", mounted, str(place), "true"], capture_output=True, check=False
            )
        except FileNotFoundError:
            break
        if possible.returncode == 0:
            line = [*namespace, "sh", "-c", mounted, str(place), *inner]
            ended = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
            assert ended.returncode == 0, ended.stderr
            return dict(json.loads(ended.stdout))
    pytest.skip("no mount namespace can be made here: it takes root or user namespaces, and unshare of util-linux")


def test_a_full_disk_keeps_the_newest(tmp_path: Path) -> None:
    """Somebody's checkpoint filled the disk: what is wrong now is worth more than what was wrong an hour ago."""
    said = on_a_disk(
        """
append(40)
said["disk"], said["loss"], said["unwritten"] = on_disk(), spool.untold_loss, spool.unwritten
said["rows"], said["taken"] = spool.dropped_rows, take()
""",
        tmp_path,
        "size=400k",
    )
    assert said["unwritten"] == 0
    assert said["disk"][-1] == 39
    assert said["taken"] == said["disk"]
    first, last = said["loss"]
    assert (first, last) == (0, said["disk"][0] - 1)
    assert said["rows"] == {"allocations": last + 1}


def test_a_disk_that_others_fill_to_the_last_byte_blinds_nobody(tmp_path: Path) -> None:
    """The collector is well and everything is delivered: then there is nothing to drop, and no room either."""
    said = on_a_disk(
        """
append(3)
take()
hog = os.open(place / "hog", os.O_CREAT | os.O_WRONLY)
try:
    while os.write(hog, bytes(4096)):
        pass
except OSError:
    pass
said["durable"] = append(5)
said["unwritten"], said["dropped"], said["taken"] = spool.unwritten, spool.dropped, take()
append(2)
(place / "hog").unlink()
os.close(hog)
said["then"], said["disk"] = append(1), on_disk()
""",
        tmp_path,
        "size=400k",
    )
    assert said["durable"] == [False] * 5
    assert (said["unwritten"], said["dropped"]) == (5, 0)
    assert said["taken"] == [3, 4, 5, 6, 7]
    assert said["then"] == [True]
    assert said["disk"] == [8, 9, 10], "what waited in memory is on the disk as soon as there is room"


def test_a_disk_without_inodes_is_a_full_disk(tmp_path: Path) -> None:
    """Millions of small files of somebody else: bytes are left, and no file can be made."""
    said = on_a_disk(
        "append(40, 100); said['disk'], said['loss'] = on_disk(), spool.untold_loss", tmp_path, "nr_inodes=20"
    )
    assert said["disk"][-1] == 39
    assert said["loss"][1] + 1 == said["disk"][0]


def test_a_disk_that_goes_read_only_blinds_nobody_and_may_come_back(tmp_path: Path) -> None:
    """A root file system that met an error goes read-only, and its host runs on for weeks."""
    said = on_a_disk(
        """
append(2)
stream = go_read_only()
said["durable"] = append(3)
said["waiting"], said["dropped"] = spool.waiting, spool.dropped
mount("-o", "remount,bind,rw", stream)
said["then"], said["disk"], said["taken"] = append(1), on_disk(), take()
""",
        tmp_path,
        "size=400k",
    )
    assert said == {
        "durable": [False] * 3,
        "waiting": 5,
        "dropped": 0,
        "then": [True],
        "disk": [0, 1, 2, 3, 4, 5],
        "taken": [0, 1, 2, 3, 4, 5],
    }


def test_what_is_delivered_from_a_read_only_disk_is_not_delivered_for_ever(tmp_path: Path) -> None:
    """It cannot be removed there; after a restart it comes once more and counts once."""
    said = on_a_disk('append(3); go_read_only(); said["taken"] = take(); said["again"] = take()', tmp_path, "size=400k")
    assert said == {"taken": [0, 1, 2], "again": []}


def test_an_agent_does_not_start_on_a_read_only_disk(tmp_path: Path) -> None:
    """Nothing could be kept from the first second on: that is for whoever starts it to hear."""
    said = on_a_disk(
        """
spool.close()
mount("-o", "remount,ro", place)
try:
    open_spool(place / "spool", 10**9, 10**9)
except SpoolError as error:
    said["refused"] = str(error)
""",
        tmp_path,
        "size=400k",
    )
    assert "Read-only file system" in said["refused"]


def test_a_limit_on_files_is_a_disk_that_refuses(tmp_path: Path) -> None:
    """`LimitFSIZE=` of a unit: the kernel sends a signal first, which must not end the agent."""
    script = """
append(1, 100)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
said["durable"], said["small"], said["taken"] = append(2), append(1, 100), take()
"""
    line = [sys.executable, "-c", BEGIN + script + END, str(tmp_path)]
    ended = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout) == {"durable": [False, False], "small": [True], "taken": [0, 1, 2, 3]}
