"""Ask Slurm's commands, in JSON where this release has it, else in text: bounded in time and in what they may say."""

import logging
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Literal, TypeVar

from agent.wire.units import SECOND_US
from collector.errors import SchedulerError
from collector.schedulers.books import NodeState
from collector.schedulers.slurm.jobs import (
    HISTORY_FIELDS,
    SACCT_FIELDS,
    Job,
    accounted_in_json,
    accounted_in_text,
    queued_in_json,
    shown_jobs,
)
from collector.schedulers.slurm.nodes import EVENT_FIELDS, Event, node_events, nodes_in_json, nodes_in_text
from collector.schedulers.slurm.rows import RowCount

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
_Way = tuple[Callable[[bytes], T], tuple[str, ...]]  # how an answer is read, and the command that gives it
Form = Literal["auto", "json", "text"]

_ACCOUNT = ("sacct", "--allusers", "--allocations", "--duplicates", "--noheader", "--starttime")

# Variables by which a user changes what Slurm's commands print; the service's own environment must not.
_CHANGES_OUTPUT = ("SACCT_", "SINFO_", "SQUEUE_", "SCONTROL_", "SLURM_CLUSTERS", "SLURM_JSON", "SLURM_TIME_FORMAT")
_COMPLAINT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Commands:
    """Where the commands are (None: on the PATH), how long each may take, and how much it may print."""

    directory: Path | None = None
    timeout_seconds: float = 60.0
    most_bytes: int = 256 * 2**20

    def output(self, name: str, *arguments: str) -> bytes:
        """Return what a command printed.

        Raises:
            SchedulerError: it is not there, failed, took too long, or printed too much.
        """
        path = str(self.directory / name) if self.directory else name
        with tempfile.TemporaryFile() as complaints:
            try:
                process = subprocess.Popen(  # noqa: S603  a fixed command, no shell
                    [path, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                    env=_environment(os.environ, "--json" in arguments),
                    start_new_session=True,
                )
            except OSError as error:
                raise SchedulerError(f"{path} cannot be run: {error.strerror}; is Slurm's client installed?") from error
            return self._result(name, process, complaints)

    def _result(self, name: str, process: subprocess.Popen[bytes], complaints: IO[bytes]) -> bytes:
        late = threading.Event()

        def end() -> None:
            late.set()
            _kill(process)

        alarm = threading.Timer(self.timeout_seconds, end)
        alarm.start()
        with process:
            said = process.stdout.read(self.most_bytes + 1) if process.stdout else b""
            if len(said) > self.most_bytes:
                _kill(process)
            code = process.wait()
            alarm.cancel()
        if late.is_set():
            raise SchedulerError(f"{name} took longer than {self.timeout_seconds:g} s; is the scheduler healthy?")
        if len(said) > self.most_bytes:
            raise SchedulerError(f"{name} printed more than {self.most_bytes} bytes; raise collector.slurm_bytes")
        if code:
            raise SchedulerError(f"{name} failed with {code}: {_first_line(complaints)}")
        return said


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the command and all that it started; it leads a session of its own."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _environment(own: Mapping[str, str], is_json: bool) -> dict[str, str]:
    kept = {name: value for name, value in own.items() if not name.startswith(_CHANGES_OUTPUT)} | {"LC_ALL": "C"}
    # Times in seconds of the epoch, whatever the zone; JSON has them anyhow, and sacct 22.05 would trip over it there.
    return kept if is_json else kept | {"SLURM_TIME_FORMAT": "%s"}


def _first_line(complaints: IO[bytes]) -> str:
    complaints.seek(0)
    lines = complaints.read(_COMPLAINT_BYTES).decode("utf-8", "replace").strip().splitlines()
    return lines[0] if lines else "it printed nothing"


class SlurmReader:
    """Asks one cluster. A way that has answered once is kept; one that has not is left for the next that does."""

    def __init__(self, commands: Commands, form: Form = "auto") -> None:
        self._commands = commands
        self._form = form
        self._kept: dict[str, int] = {}
        self._no_accounting = False
        self._unread = ""

    def queued(self) -> list[Job]:
        """Return the jobs that the controller knows: waiting, holding, and ended minutes ago.

        Raises:
            SchedulerError: it did not answer.
        """
        ways: list[_Way[list[Job]]] = [
            (queued_in_json, ("squeue", "--all", "--states=all", "--json")),
            (shown_jobs, ("scontrol", "--all", "--details", "show", "job")),
        ]
        return self._ask("jobs", ways)

    def accounted(self, since: int) -> list[Job]:
        """Return the jobs that accounting knows to have existed since then (microseconds UTC).

        Raises:
            SchedulerError: it did not answer; a cluster may have none.
        """
        start = f"uts{since // SECOND_US}"
        fields = f"--format={SACCT_FIELDS}"
        count = RowCount()
        ways: list[_Way[list[Job]]] = [
            (partial(accounted_in_json, count=count), (*_ACCOUNT, start, "--json")),
            (partial(accounted_in_text, count=count), (*_ACCOUNT, start, "--parsable2", fields)),
        ]
        found = self._ask("accounting", ways)
        self._no_accounting = False
        unread = "; ".join(count.why)
        if unread != self._unread:
            self._unread = unread
            if unread:
                _LOG.warning("%d jobs of Slurm's accounting were not read: %s", count.unread, unread)
        return found

    def history(self, since: int, until: int, cluster: str | None = None, count: RowCount | None = None) -> list[Job]:
        """Return the jobs that accounting knows to have existed between two times (microseconds UTC).

        In text, unless JSON was asked for: a quarter of the size. `cluster` is another one of the same database; each
        row is counted.

        Raises:
            SchedulerError: it did not answer.
        """
        span = (f"uts{since // SECOND_US}", "--endtime", f"uts{until // SECOND_US}")
        other = ("--clusters", cluster) if cluster else ()
        asked = (*_ACCOUNT, *span, *other)
        if self._form == "json":
            return self._one((partial(accounted_in_json, count=count), (*asked, "--json")))
        text = (*asked, "--parsable2", f"--format={HISTORY_FIELDS}")
        return self._one((partial(accounted_in_text, fields=HISTORY_FIELDS, count=count), text))

    def events(self, since: int, cluster: str | None = None, count: RowCount | None = None) -> list[Event]:
        """Return when hosts were out of service since then (microseconds UTC), as accounting has it; rows are counted.

        Raises:
            SchedulerError: it did not answer.
        """
        where = (f"clusters={cluster}",) if cluster else ()
        asked = ("sacctmgr", "--parsable2", "show", "event", f"start=uts{since // SECOND_US}", *where)
        return self._one((partial(node_events, count=count), (*asked, f"format={EVENT_FIELDS}")))

    def nodes(self) -> list[NodeState]:
        """Return the states of the hosts.

        Raises:
            SchedulerError: the controller did not answer.
        """
        ways: list[_Way[list[NodeState]]] = [
            (nodes_in_json, ("scontrol", "show", "node", "--json")),
            (nodes_in_json, ("sinfo", "--json")),
            (nodes_in_text, ("scontrol", "--all", "show", "node")),
        ]
        return self._ask("hosts", ways)

    def without_accounting(self, error: SchedulerError) -> None:
        """Say once that accounting does not answer: ends are then known only while the controller remembers them."""
        if not self._no_accounting:
            _LOG.warning("Slurm's accounting does not answer, and how jobs end may stay unknown: %s", error)
        self._no_accounting = True

    def _ask(self, subject: str, ways: Sequence[_Way[T]]) -> T:
        chosen = [way for way in ways if self._allowed(way)]
        if subject in self._kept:
            number = self._kept.pop(subject)  # where it fails now, the others are tried again: Slurm may be a new one
            found = self._one(chosen[number])
            self._kept[subject] = number
            return found
        failures: list[SchedulerError] = []
        for number, way in enumerate(chosen):
            try:
                found = self._one(way)
            except SchedulerError as error:
                failures.append(error)
                continue
            self._kept[subject] = number
            if failures:
                _LOG.info("Slurm's %s are read by %s: %s", subject, " ".join(way[1][:2]), failures[0])
            return found
        raise failures[-1]

    def _allowed(self, way: _Way[T]) -> bool:
        return self._form == "auto" or ("--json" in way[1]) == (self._form == "json")

    def _one(self, way: _Way[T]) -> T:
        read, (name, *arguments) = way
        return read(self._commands.output(name, *arguments))


_ENDED = "CD,F,TO,CA,NF,OOM,PR,BF,DL"
_JOB_ID = re.compile(r"\d+(?:_\d+|\+\d+)?")


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job of GPUs that has ended: its id as people have it, the number that accounting changes it by, its comment."""

    id: str
    number: str
    comment: str


def ended_jobs(commands: Commands, since: int) -> list[EndedJob]:
    """Return the jobs of GPUs that were there since then (microseconds UTC) and have ended, the last to begin first.

    Raises:
        SchedulerError: accounting did not answer.
    """
    span = ("--starttime", f"uts{since // SECOND_US}", "--endtime", "now", "--state", _ENDED)
    form = ("--noheader", "--parsable2", "--format=JobID,JobIDRaw,AllocTRES,AdminComment")
    said = commands.output("sacct", "--allusers", "--allocations", *span, *form)
    found = []
    for line in said.decode("utf-8", "replace").splitlines():
        job, _, rest = line.partition("|")
        number, _, rest = rest.partition("|")
        tres, _, comment = rest.partition("|")
        if _JOB_ID.fullmatch(job) and number.isdecimal() and "gres/gpu" in tres:
            found.append(EndedJob(job, number, comment))
    return found[::-1]


def comment_on(commands: Commands, job: EndedJob, text: str) -> None:
    """Write a text as the AdminComment of a job that has ended, into accounting alone.

    Raises:
        SchedulerError: accounting refuses, or did not answer.
    """
    commands.output("sacctmgr", "-i", "modify", "job", "where", f"jobid={job.number}", "set", f"admincomment={text}")
