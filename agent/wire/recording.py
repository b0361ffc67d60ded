"""What `gpuledger run` leaves behind: one run's batches in one file, one JSON object a line.

    {"recording": 1, "run_id": …, "node": …, "command": …, "started_at": …, …}     the header, when the run begins
    {"batch": "<base64 of a batch as it would be sent>"}                            as often as needed
    {"ended_at": …, "exit_code": …, "cpu_seconds": …, …}                            when the run has ended

A recording whose last line is missing or torn is that of a run whose watcher was killed: what is there counts.
It stays on this machine, so that it may hold the command's words, which no batch ever does.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any, TypeVar

from agent.errors import EnvelopeError
from agent.wire.bounded import json_said

VERSION = 1
_MAX_LINE = 128 * 2**20  # characters; longer than any batch that a watcher writes

PartT = TypeVar("PartT", bound="RecordingHeader | RecordingEnd")


@dataclass(frozen=True, slots=True)
class RecordingHeader:
    """How the run began. Times are microseconds UTC; `no_gpu` is the reason in words, empty where there are GPUs."""

    recording: int
    run_id: str
    node: str
    command: str
    started_at: int
    gpus: int
    no_gpu: str
    gpu_seconds: float  # between two readings of the GPUs, at first; it grows with the age of the run
    host_seconds: float


@dataclass(frozen=True, slots=True)
class RecordingEnd:
    """How the run ended: its exit code (128 + n for a signal), what it cost, and what watching it cost.

    `command_cpu_seconds` is that of the command and of all its processes that it waited for, as the kernel tells it.
    `left_processes` are those of it that lived on. `others` names who else's processes were seen on its GPUs:
    `foreign_gpus` were theirs alone and are not booked, on `shared_gpus` both worked.
    """

    ended_at: int
    exit_code: int
    command_cpu_seconds: float
    command_rss_bytes: int
    watcher_cpu_seconds: float
    watcher_rss_bytes: int | None
    left_processes: int = 0
    foreign_gpus: int = 0
    shared_gpus: int = 0
    others: str = ""


class RecordingWriter:
    """Writes one recording, line by line; what is written is there even if the watcher is killed."""

    def __init__(self, file: IO[str], header: RecordingHeader) -> None:
        self._file = file
        self._line(asdict(header))

    def batch(self, body: bytes) -> None:
        """Add one batch."""
        self._line({"batch": base64.b64encode(body).decode("ascii")})

    def end(self, end: RecordingEnd) -> None:
        """Say how the run ended, and close the file."""
        self._line(asdict(end))
        self._file.close()

    def _line(self, fields_: Mapping[str, object]) -> None:
        self._file.write(json.dumps(fields_, separators=(",", ":")) + "\n")
        self._file.flush()


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording as read back. `end` is None where the watcher was killed before the run ended."""

    header: RecordingHeader
    batches: tuple[bytes, ...]
    end: RecordingEnd | None


def read_recording(path: Path) -> Recording:
    """Return a recording.

    Raises:
        EnvelopeError: the file cannot be read, or is no recording; its batches are not looked into.
    """
    try:
        with path.open(encoding="utf-8") as file:
            lines = _lines(path, file)
            header = _part(RecordingHeader, next(lines, {}), path)
            if header.recording != VERSION:
                raise EnvelopeError(
                    f"{path} is a recording of version {header.recording}; this release reads {VERSION}"
                )
            return _rest(header, lines, path)
    except (OSError, UnicodeDecodeError) as error:
        raise EnvelopeError(f"cannot read the recording {path}: {error}") from error


def _rest(header: RecordingHeader, lines: Iterator[Mapping[str, Any]], path: Path) -> Recording:
    batches: list[bytes] = []
    for line in lines:
        if "batch" not in line:
            return Recording(header, tuple(batches), _part(RecordingEnd, line, path))
        try:
            batches.append(base64.b64decode(str(line["batch"]), validate=True))
        except binascii.Error as error:
            raise EnvelopeError(f"{path} holds a batch that is not base64") from error
    return Recording(header, tuple(batches), None)


def _lines(path: Path, file: IO[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of the file; a last line without its end was being written when the watcher was killed."""
    while (text := file.readline(_MAX_LINE)).endswith("\n"):
        try:
            line = json_said(text)
        except ValueError as error:
            raise EnvelopeError(f"{path} is not a recording of gpuledger run") from error
        if not isinstance(line, dict):
            raise EnvelopeError(f"{path} is not a recording of gpuledger run")
        yield line


def _part(kind: type[PartT], line: Mapping[str, Any], path: Path) -> PartT:
    """Return a header or an end; what a newer release added is passed over, what an older one did not say is usual."""
    wanted = {field.name: field.type for field in fields(kind) if field.default is MISSING or field.name in line}
    try:
        values = {name: line[name] for name in wanted}
    except KeyError as error:
        raise EnvelopeError(f"{path} is not a recording of gpuledger run: {error} is missing") from error
    for name, type_ in wanted.items():
        if not isinstance(values[name], _TYPES[str(type_)]) or isinstance(values[name], bool):
            raise EnvelopeError(f"{path} is not a recording of gpuledger run: {name} is {values[name]!r}")
    return kind(**values)


_TYPES: dict[str, tuple[type, ...]] = {
    str(int): (int,),
    str(float): (int, float),
    str(str): (str,),
    str(int | None): (int, type(None)),
}
