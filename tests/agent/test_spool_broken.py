"""A table of broken spool directories, and what the agent makes of each: it starts, sets aside, counts, goes on."""

import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import which

import pytest

from agent.errors import SpoolError
from agent.spool.losses import Range
from agent.spool.queue import Spool, open_spool
from tests.agent.batches import batch, busy_of, identity, maker

ROOT = Path(__file__).parent.parent.parent
LARGE = 10**7
OTHER = str(uuid.UUID(int=7))


@dataclass(frozen=True)
class Case:
    """What is done to a spool of the batches 0, 1, 2, and what is left of it then.

    `here` is the stream's directory within the spool.
    """

    breaks: Callable[[Path, str], object]
    quarantined: int = 0
    left: tuple[int, ...] = (0, 1, 2)
    lost: Range | None = None
    same_stream: bool = True


def name(sequence: int) -> str:
    """Return the name of a batch's file."""
    return f"{sequence:020d}.batch"


def put(content: bytes, sequence: int = 1) -> Callable[[Path, str], object]:
    """Return a step that puts this in the place of a batch."""
    return lambda here, stream: (here / name(sequence)).write_bytes(content)


def changed(change: Callable[[bytes], bytes], sequence: int) -> Callable[[Path, str], object]:
    """Return a step that changes the bytes of a batch."""
    return lambda here, stream: (here / name(sequence)).write_bytes(change((here / name(sequence)).read_bytes()))


def in_place(make: Callable[[Path], object], sequence: int = 1) -> Callable[[Path, str], object]:
    """Return a step that puts something that is no file in the place of a batch."""

    def step(here: Path, stream: str) -> None:
        (here / name(sequence)).unlink(missing_ok=True)
        make(here / name(sequence))

    return step


def beside(file: str, content: bytes = b"junk") -> Callable[[Path, str], object]:
    """Return a step that puts a file beside the stream."""
    return lambda here, stream: (here.parent / file).write_bytes(content)


def note(content: bytes) -> Callable[[Path, str], object]:
    """Return a step that changes the note of the stream."""
    return beside("stream", content)


def no_file(file: str, make: Callable[[Path], object]) -> Callable[[Path, str], object]:
    """Return a step that makes something else of a file of the spool."""

    def step(here: Path, stream: str) -> None:
        path = here.parent / file
        (path.rmdir if path.is_dir() else path.unlink)() if path.exists() else None
        make(path)

    return step


def sparse(path: Path) -> None:
    """Make a file of ten gigabytes that takes no space."""
    with path.open("wb") as file:
        file.truncate(10 * 2**30)


def unix_socket(path: Path) -> None:
    """Leave a socket behind; its path may be too long for bind()."""
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


def stream_of(batches: int, known: str = OTHER) -> Callable[[Path, str], None]:
    """Return a step that puts another stream beside ours, written to before it."""

    def step(here: Path, stream: str) -> None:
        other = here.parent / known
        other.mkdir()
        for sequence in range(batches):
            (other / name(sequence)).write_bytes(batch(known, sequence, 0.9))
        os.utime(other, (1, 1))

    return step


def both(*steps: Callable[[Path, str], object]) -> Callable[[Path, str], object]:
    """Return several steps as one."""
    return lambda here, stream: [step(here, stream) for step in steps]


def without_stream(here: Path, stream: str) -> None:
    """Remove the stream's directory, as somebody who tidies up."""
    for path in here.iterdir():
        path.unlink()
    here.rmdir()


def crowded(here: Path, stream: str) -> None:
    """Fill the quarantine."""
    for number in range(300):
        (here.parent / "quarantine" / f"{number}.{OTHER}.x").touch()


CASES: dict[str, Case] = {
    "nothing wrong": Case(lambda here, stream: None),
    # batches that are none
    "an empty file": Case(put(b""), 1, (0, 2), (1, 1)),
    "junk": Case(put(b"not a batch"), 1, (0, 2), (1, 1)),
    "zeros, as after a power cut without syncs": Case(changed(lambda body: bytes(len(body)), 2), 1, (0, 1), (2, 2)),
    "a tail that is cut off": Case(changed(lambda body: body[:-5], 2), 1, (0, 1), (2, 2)),
    "half of it": Case(changed(lambda body: body[: len(body) // 2], 0), 1, (1, 2), (0, 0)),
    "something after its end": Case(changed(lambda body: body + b"more", 1), 1, (0, 2), (1, 1)),
    "a bit flipped": Case(changed(lambda body: bytes([*body[:40], body[40] ^ 1, *body[41:]]), 1), 1, (0, 2), (1, 1)),
    "ten gigabytes": Case(in_place(sparse), 1, (0, 2), (1, 1)),
    "a folder": Case(in_place(lambda path: path.mkdir()), 1, (0, 2), (1, 1)),
    "a link": Case(in_place(lambda path: path.symlink_to("/etc/hostname")), 1, (0, 2), (1, 1)),
    "a link to nothing": Case(in_place(lambda path: path.symlink_to("nowhere")), 1, (0, 2), (1, 1)),
    "a link to itself": Case(in_place(lambda path: path.symlink_to(path.name)), 1, (0, 2), (1, 1)),
    "a pipe": Case(in_place(os.mkfifo), 1, (0, 2), (1, 1)),
    "a socket": Case(in_place(unix_socket), 1, (0, 2), (1, 1)),
    "a batch of another number": Case(put(batch(OTHER, 7)), 1, (0, 2), (1, 1)),
    "one batch under two numbers": Case(
        lambda here, stream: (here / name(3)).write_bytes((here / name(1)).read_bytes()), 1, (0, 1, 2), (3, 3)
    ),
    "a batch of another stream": Case(put(batch(OTHER, 1)), 1, (0, 2), (1, 1)),
    "a batch that somebody removed": Case(lambda here, stream: (here / name(1)).unlink(), 0, (0, 2)),
    # names that are none
    "a name without zeros": Case(lambda here, stream: (here / "1.batch").write_bytes(batch(stream, 1)), 1),
    "a sign": Case(lambda here, stream: (here / "-0000000000000000001.batch").touch(), 1),
    "a number beyond all": Case(lambda here, stream: (here / "99999999999999999999.batch").touch(), 1),
    "a number that would use them up": Case(lambda here, stream: (here / name(2**62)).touch(), 1),
    "digits of another script": Case(lambda here, stream: (here / ("\u0661" * 20 + ".batch")).touch(), 1),
    "a foreign file": Case(lambda here, stream: (here / "notes.txt").write_text("mine"), 1),
    "the longest name": Case(lambda here, stream: (here / ("n" * 255)).touch(), 1),
    "a name that is no text": Case(lambda here, stream: Path(os.fsdecode(bytes(here) + b"/\xff\xfe\n")).touch(), 1),
    "a number that is done, below the others": Case(lambda here, stream: (here / f"{0:020d}.done").touch()),
    "a number that is done, and no number": Case(lambda here, stream: (here / "7.done").touch(), 1),
    # what a crash leaves
    "a batch half written": Case(lambda here, stream: (here / f"{name(3)}.tmp").write_bytes(b"half")),
    "a folder half written": Case(lambda here, stream: (here / f"{name(3)}.tmp").mkdir()),
    "a note half written": Case(beside("stream.tmp", b"0000")),
    "a change of streams that had not happened": Case(
        lambda here, stream: both(stream_of(2), note(f"{stream}\n{OTHER}".encode()))(here, stream)
    ),
    "a change of streams that had happened": Case(
        lambda here, stream: both(stream_of(2), note(f"{OTHER}\n{stream}".encode()))(here, stream),
        left=(0, 1),
        same_stream=False,
    ),
    # the note of the stream
    "no note": Case(lambda here, stream: (here.parent / "stream").unlink()),
    "an empty note": Case(note(b"")),
    "a note of junk": Case(note(b"\xff\xfe\x00junk")),
    "a note of a gigabyte": Case(no_file("stream", sparse)),
    "a note that is a folder": Case(no_file("stream", lambda path: path.mkdir()), 1),
    "a note that is a link": Case(no_file("stream", lambda path: path.symlink_to("/dev/zero")), 1),
    "a note of a stream that is not there": Case(note(OTHER.encode())),
    "a note that leads out of here": Case(note(b"../../etc")),
    # streams
    "two streams": Case(stream_of(3), 1),
    "two streams and no note": Case(both(stream_of(3), lambda here, stream: (here.parent / "stream").unlink()), 1),
    "no stream": Case(without_stream, 0, (), same_stream=False),
    "a stream that is a file": Case(
        both(without_stream, lambda here, stream: here.write_text("no")), 1, (), same_stream=False
    ),
    # beside it all
    "a foreign file beside": Case(beside("notes.txt"), 1),
    "a foreign folder beside": Case(lambda here, stream: (here.parent / "backup" / "old").mkdir(parents=True), 1),
    "a quarantine that is a file": Case(no_file("quarantine", lambda path: path.touch()), 1),
    "a quarantine that is a link": Case(no_file("quarantine", lambda path: path.symlink_to("nowhere")), 1),
    "no quarantine": Case(lambda here, stream: (here.parent / "quarantine").rmdir()),
    "a quarantine that is full": Case(crowded),
    "a lock with something in it": Case(beside("lock", b"4711")),
    # the note of what is lost
    "a list of losses of junk": Case(beside("lost"), 1),
    "a list of losses that goes backwards": Case(
        lambda here, stream: beside("lost", f'{{"stream":"{stream}","lost":[[3,1]]}}'.encode())(here, stream), 1
    ),
    "a list of losses of another stream": Case(beside("lost", f'{{"stream":"{OTHER}","lost":[[3,9]]}}'.encode())),
    "a list of losses that is a folder": Case(no_file("lost", lambda path: path.mkdir()), 1),
    "a list of losses that is deep": Case(beside("lost", b"[" * 9000), 1),
    "losses that were not yet told": Case(
        lambda here, stream: beside("lost", f'{{"stream":"{stream}","lost":[[5,9]]}}'.encode())(here, stream),
        lost=(5, 9),
    ),
}


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[Callable[[Case], tuple[Spool, str]]]:
    """Return what makes a spool, breaks it, and opens it again."""
    opened: list[Spool] = []

    def make(case: Case) -> tuple[Spool, str]:
        queue = open_spool(tmp_path / "spool", LARGE, LARGE, sync=False)
        for number in range(3):
            queue.append(maker(number / 10))
        stream = queue.stream
        queue.close()
        case.breaks(tmp_path / "spool" / stream, stream)
        opened.append(open_spool(tmp_path / "spool", LARGE, LARGE, sync=False))
        return opened[-1], stream

    yield make
    for queue in opened:
        queue.close()


def take(queue: Spool) -> list[tuple[str, int]]:
    """Take everything out, as a collector that seals nothing."""
    taken = []
    while (found := queue.oldest(0)) is not None:
        queue.acknowledge(found[0], -1)
        taken.append(identity(found[1]))
    return taken


@pytest.mark.parametrize("what", CASES)
def test_a_broken_directory_is_mended_and_counted(
    tmp_path: Path, broken: Callable[[Case], tuple[Spool, str]], what: str
) -> None:
    """A spool that stops at the first bad file, or empties itself, turns a bad sector into an outage."""
    case = CASES[what]
    queue, stream = broken(case)
    assert queue.quarantined == case.quarantined
    assert (queue.stream == stream) == case.same_stream
    assert queue.untold_loss == case.lost
    assert queue.append(maker(0.999)), "and it goes on"
    taken = take(queue)
    assert tuple(sequence for _, sequence in taken[:-1]) == case.left
    assert {known for known, _ in taken} == {queue.stream}
    assert taken[-1][1] > (2 if case.same_stream else -1), "a number that was given is never given again"
    names = {path.name for path in (tmp_path / "spool").iterdir()}
    assert names - {"lost"} == {"lock", "stream", "quarantine", queue.stream}


@pytest.mark.parametrize("what", CASES)
def test_what_was_mended_stays_mended(tmp_path: Path, broken: Callable[[Case], tuple[Spool, str]], what: str) -> None:
    """A second start finds nothing to do, or the log of a flapping agent would fill with the same files."""
    queue, _ = broken(CASES[what])
    stream = queue.stream
    queue.close()
    again = open_spool(tmp_path / "spool", LARGE, LARGE, sync=False)
    assert (again.quarantined, again.stream) == (0, stream)
    again.close()


POWERLESS = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")


def powerless(script: str, directory: Path) -> str:
    """Run Python without the right to pass over permissions, which root has; return what it printed."""
    prefix = POWERLESS if os.geteuid() == 0 else ()
    if prefix and which("setpriv") is None:
        pytest.skip("setpriv of util-linux is not installed, and root passes over permissions")
    line = [*prefix, sys.executable, "-c", script, str(directory)]
    ended = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


OPEN = """
import sys
from pathlib import Path
from agent.errors import SpoolError
from agent.spool.queue import open_spool
try:
    spool = open_spool(Path(sys.argv[1]), 10**7, 10**7)
except SpoolError as error:
    print("refused", error)
else:
    print(spool.quarantined, spool.waiting, spool.untold_loss)
"""


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Return the stream's directory of a spool of three batches."""
    queue = open_spool(tmp_path / "spool", LARGE, LARGE, sync=False)
    for number in range(3):
        queue.append(maker(number / 10))
    queue.close()
    return tmp_path / "spool" / queue.stream


def test_a_batch_that_may_not_be_read_is_set_aside(three: Path) -> None:
    """Somebody looked at it as root and changed its owner."""
    (three / name(1)).chmod(0)
    assert powerless(OPEN, three.parent) == "1 2 (1, 1)"


def test_a_note_that_may_not_be_read_is_made_anew(three: Path) -> None:
    """There is only one stream it can have named."""
    (three.parent / "stream").chmod(0)
    assert powerless(OPEN, three.parent) == "1 3 None"
    assert (three.parent / "stream").read_text() == three.name


@pytest.mark.parametrize("place", ["spool", "stream"])
def test_a_directory_that_may_not_be_used_is_refused_and_named(three: Path, place: str) -> None:
    """Nothing can be kept there: whoever starts the agent must hear it now, in one sentence with the way out."""
    directory = three.parent if place == "spool" else three
    directory.chmod(0)
    said = powerless(OPEN, three.parent)
    directory.chmod(0o700)
    assert said.startswith("refused cannot ")
    assert str(three.parent) in said


def test_a_spool_is_private(three: Path) -> None:
    """Batches name users."""
    assert three.parent.stat().st_mode & 0o077 == 0


def test_a_broken_batch_says_what_it_held_where_its_header_can_be_read(three: Path) -> None:
    """Rows are counted when they are dropped, by the header alone: its tail may be gone."""
    queue = open_spool(three.parent, 1, LARGE)
    assert queue.dropped == 2
    assert queue.dropped_rows == {"host_samples": 2}
    assert [busy_of(body) for _, body in [queue.oldest(0) or (0, b"")]] == [0.2]
    queue.close()


def test_an_unusable_place_is_refused(tmp_path: Path) -> None:
    """A lock that is a folder cannot be held, and two agents would share the spool."""
    (tmp_path / "spool" / "lock").mkdir(parents=True)
    with pytest.raises(SpoolError, match=r"cannot use .*spool as a spool"):
        open_spool(tmp_path / "spool", LARGE, LARGE, sync=False)
