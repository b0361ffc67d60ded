"""Profile one command on this machine: `gpuledger run -- CMD`.

The GPUs are read ten times a second and the host once, from before the command begins until it has ended, into a
recording (agent.wire.recording). No server, no root; of the command nothing is touched but its environment, which
tells it the id of its run.
"""

import logging
import os
import re
import tempfile
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count, islice
from pathlib import Path

from agent.attribution.evidence import VARIABLE, users_run_id
from agent.clock import Clock
from agent.config import AgentConfig
from agent.delivery.batch import Batcher
from agent.errors import AgentError
from agent.procfs import cpu_seconds, rss_bytes
from agent.quantity import counted
from agent.run import command
from agent.run.command import Ended, StepCounter, counted_columns, spoken
from agent.sampling.sampler import Paced, Sampler, Stamped
from agent.sampling.stamp import Stamper
from agent.sampling.wiring import HostSources, open_host_sources
from agent.source import Reading, Row, Source, Value
from agent.sources.mailbox import NUMBERS
from agent.sources.progress import VARIABLE as PROGRESS
from agent.sources.progress import OwnProgress
from agent.wire.recording import VERSION, RecordingEnd, RecordingHeader, RecordingWriter
from agent.wire.units import SECOND_US


# Which of this host's GPUs a command can use, as CUDA_VISIBLE_DEVICES and Slurm say, and a source of those alone.
@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU or MIG instance as the driver lists it. `index` is None for an instance; `sku` where it is unknown."""

    uuid: str
    index: int | None
    sku: str | None
    parent_uuid: str | None = None


def visible_gpus(inventory: Sequence[Row]) -> list[Gpu]:
    """Return the GPUs of inventory rows, in the driver's order."""
    gpus = [
        Gpu(
            str(row["gpu_uuid"]),
            index if isinstance(index := row.get("gpu_index"), int) else None,
            str(row["sku"]) if row.get("sku") else None,
            str(row["parent_uuid"]) if row.get("parent_uuid") else None,
        )
        for row in inventory
        if row.get("gpu_uuid")
    ]
    return sorted(gpus, key=lambda gpu: (gpu.index is None, gpu.index or 0))


def visible(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> list[Gpu]:
    """Return the GPUs that a command with this environment can use, in its own order.

    Indices are the driver's (CUDA_DEVICE_ORDER=PCI_BUS_ID; CUDA's own default order differs only between unlike
    GPUs). As in CUDA the list ends at its first entry that names no GPU. A task of srun that reports for its whole
    node has the GPUs of the step, not of the task.
    """
    names = environment.get("CUDA_VISIBLE_DEVICES")
    if "SLURM_LOCALID" in environment:
        names = environment.get("SLURM_STEP_GPUS") or environment.get("SLURM_JOB_GPUS") or names
    if names is None:
        return [gpu for gpu in gpus if gpu.parent_uuid is None]
    chosen: list[Gpu] = []
    for name in names.split(","):
        gpu = _named(gpus, name.strip())
        if gpu is None:
            break
        if gpu not in chosen:
            chosen.append(gpu)
    return chosen


def _named(gpus: Sequence[Gpu], name: str) -> Gpu | None:
    if name.isdecimal():
        return next((gpu for gpu in gpus if gpu.index == int(name) and gpu.parent_uuid is None), None)
    if not name.startswith(("GPU-", "MIG-")):
        return None
    found = [gpu for gpu in gpus if gpu.uuid.startswith(name)]
    return found[0] if len(found) == 1 else None


class ChosenGpus:
    """A source of some of the GPUs that another one reads; `first` is what that one said at its first reading."""

    def __init__(self, source: Source, chosen: Sequence[Gpu], first: Reading) -> None:
        self.name = source.name
        self.period_seconds = source.period_seconds
        self._source = source
        self._chosen = {gpu.uuid for gpu in chosen}
        self._first: Reading | None = first

    def read(self) -> Reading:
        """Return the rows of the chosen GPUs."""
        reading, self._first = self._first or self._source.read(), None
        return {name: [row for row in rows if row.get("gpu_uuid") in self._chosen] for name, rows in reading.items()}


_LOG = logging.getLogger(__name__)
# One run under observation: the sources, chosen and paced for it, the beat on its thread, and the recording.
_GPU_SECONDS = 0.1  # between two readings, where there is a GPU and nobody asked otherwise
_HOST_SECONDS = 1.0
_BATCH_SECONDS = 30.0
# A recording must not grow for ever: from these ages of a run on (seconds) the beat is at least this slow.
_SLOWER = ((36_000.0, 10.0), (3_600.0, 1.0))
_MOST_OTHERS = 8  # processes of others that are named
_CANCELLED_BY = (128 + 1, 128 + 2, 128 + 15)  # SIGHUP, SIGINT, SIGTERM: somebody's will, not the run's failure


@dataclass(frozen=True, slots=True)
class Subject:
    """The run that is observed: its id, its words as a person types them, and the GPUs that it can use."""

    run_id: str
    command: str
    gpus: tuple[Gpu, ...]
    no_gpu: str

    @property
    def what(self) -> str:
        """What is watched, in words: "4 x H100-80GB and this host"."""
        if not self.gpus:
            return f"this host only; no GPU here ({self.no_gpu})"
        return f"{counted([gpu.sku or 'GPU' for gpu in self.gpus])} and this host"


def _chosen_sources(
    host_sources: HostSources, environment: Mapping[str, str], every: float | None
) -> tuple[list[Source], list[Gpu], str]:
    """Return the sources for one run, the GPUs that it can use, and why there are none where there are none."""
    gpus: list[Gpu] = []
    sources, no_gpu = (
        [source for source in host_sources.sources if source is not host_sources.gpus],
        host_sources.gpus.no_gpu,
    )
    if not no_gpu:
        try:
            first = host_sources.gpus.read()
        except AgentError as error:  # the driver may have been replaced just now, too
            no_gpu = str(error)
        else:
            gpus = visible(visible_gpus(first.get("inventory", [])), environment)
            no_gpu = "" if gpus else "the environment's list of visible GPUs does not include any GPU of this host"
    paced: list[Source] = [Paced(source, max(_HOST_SECONDS, every or 0)) for source in sources]
    return ([ChosenGpus(host_sources.gpus, gpus, first), *paced] if gpus else paced), gpus, no_gpu


class _Observation:
    """Reads from `begin` to `end` on a thread of its own. Nothing that fails here may reach the command."""

    def __init__(
        self,
        config: AgentConfig,
        subject: Subject,
        sources: Sequence[Source],
        clock: Clock,
        every_seconds: float | None,
        open_recording: Callable[[RecordingHeader], RecordingWriter],
    ) -> None:
        beat = every_seconds or (_GPU_SECONDS if subject.gpus else _HOST_SECONDS)
        self._subject = subject
        self._clock = clock
        self._proc = config.proc
        self._stamper = Stamper(config.node_name)
        self._sampler = Sampler(self._stamper, sources, clock, beat)
        self._batcher = Batcher(config.node_name, clock, _BATCH_SECONDS, self._append)
        self._sequence = 0
        self._unwritten = 0
        self._users: dict[str, set[str]] = {gpu.uuid: set() for gpu in subject.gpus}  # runs whose processes were seen
        self._others: dict[str, None] = {}  # "ann (pid 4711)", in the order in which they were seen
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beat")
        # The first interval begins here; that of the processes when there is one.
        self._take(self._sampler.beat(everything=True, without=("process",)))
        self._cpu_before = cpu_seconds()
        self._began = clock.monotonic()
        self._header = RecordingHeader(
            recording=VERSION,
            run_id=subject.run_id,
            node=config.node_name,
            command=subject.command,
            started_at=clock.wall(),
            gpus=len(subject.gpus),
            no_gpu=subject.no_gpu,
            gpu_seconds=beat,
            host_seconds=max(_HOST_SECONDS, beat),
        )
        self._writer = open_recording(self._header)

    def begin(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def end(self, ended: Ended) -> float:
        """Read once more, complete the recording, and return how long the run took, in seconds."""
        self._stop.set()
        took = self._clock.monotonic() - self._began
        until = self._header.started_at + took
        self._thread.join()
        self._sampler.close()
        self._tell_run(ended, until)
        self._batcher.seal()
        cost = cpu_seconds() - self._cpu_before
        end = RecordingEnd(
            ended_at=until,
            exit_code=ended.exit_code,
            command_cpu_seconds=ended.cpu_seconds,
            command_rss_bytes=ended.rss_bytes,
            watcher_cpu_seconds=cost,
            watcher_rss_bytes=rss_bytes(self._proc),
            left_processes=_left_behind(self._proc, self._subject.run_id),
            foreign_gpus=len(self._foreign),
            shared_gpus=sum(len(users) > 1 for users in self._users.values() if self._subject.run_id in users),
            others=", ".join(self._others),
        )
        self._written(lambda: self._writer.end(end))
        if self._unwritten:
            _LOG.warning("%d parts of the recording could not be written", self._unwritten)
        return took / SECOND_US

    def _run(self) -> None:
        try:
            self._sampler.run(self._stop, self._deliver)
        except AgentError as error:
            _LOG.warning("readings have stopped: %s", error)

    def _deliver(self, stamped: Sequence[Stamped]) -> None:
        self._take(stamped)
        age = (self._clock.monotonic() - self._began) / SECOND_US
        for since, period in _SLOWER:
            if age > since:
                self._sampler.slow_to(period)
                break

    def _take(self, stamped: Sequence[Stamped]) -> None:
        self._batcher.add(
            [replace(said, tables={n: self._ours(n, rows) for n, rows in said.tables.items()}) for said in stamped]
        )

    def _ours(self, table: str, rows: list[dict[str, Value]]) -> list[dict[str, Value]]:
        """Leave out other GPUs' processes, and what the processes show of this run's holding: we know it exactly."""
        mine = {None, *(gpu.uuid for gpu in self._subject.gpus)}
        if table == "process_samples":
            kept = [row for row in rows if row.get("gpu_uuid") in mine]
            self._notice(kept)
            return kept
        if table == "allocations":
            return [row for row in rows if row.get("gpu_uuid") in mine and row.get("run_id") != self._subject.run_id]
        return rows

    def _notice(self, rows: Sequence[Mapping[str, Value]]) -> None:
        """Remember whose processes were on each GPU."""
        for row in rows:
            run_id, users = str(row["run_id"]), self._users.get(str(row.get("gpu_uuid")))
            if users is None:
                continue
            users.add(run_id)
            if run_id != self._subject.run_id and len(self._others) < _MOST_OTHERS:
                self._others[f"{row.get('owner') or 'somebody'} (pid {row.get('pid') or 'unknown'})"] = None

    @property
    def _foreign(self) -> set[str]:
        """The GPUs on which only others' processes were seen: that a command could use them holds nothing."""
        return {gpu for gpu, users in self._users.items() if users and self._subject.run_id not in users}

    def _tell_run(self, ended: Ended, until: int) -> None:
        """Add what is known only now: the run's holding of its GPUs, from begin to end."""
        began, foreign = self._header.started_at, self._foreign
        gpus = [gpu for gpu in self._subject.gpus if gpu.uuid not in foreign]
        held: list[Row] = [self._allocation(gpu, rank, began, until, ended) for rank, gpu in enumerate(gpus)]
        owned: list[Row] = [
            {"gpu_uuid": gpu.uuid, "owned_from": began, "owned_until": until, "sku": gpu.sku, "source": "agents"}
            for gpu in gpus
        ]
        tables = self._stamper.stamped({"allocations": held, "ownership": owned}, began, until)
        self._batcher.add([Stamped("run", 0, began, until, tables)])

    def _allocation(self, gpu: Gpu, rank: int, began: int, until: int, ended: Ended) -> Row:
        failed = "cancelled" if ended.exit_code in _CANCELLED_BY else "failed"
        return {
            "run_id": self._subject.run_id,
            "gpu_uuid": gpu.uuid,
            "submitted_at": began,
            "started_at": began,
            "ended_at": until,
            "attempt": 0,
            "requested_gpus": len(self._subject.gpus),
            "rank": rank,
            "scheduler": "declared",
            "name": self._subject.command,
            "exit_status": "completed" if ended.exit_code == 0 else failed,
        }

    def _append(self, make: Callable[[str, int], bytes]) -> bool:
        body = make(self._subject.run_id, self._sequence)
        self._sequence += 1
        return self._written(lambda: self._writer.batch(body))

    def _written(self, write: Callable[[], None]) -> bool:
        try:
            write()
        except OSError:
            self._unwritten += 1
            return False
        return True


def _left_behind(proc: Path, run_id: str) -> int:
    """Return how many processes live that were told to be of this run; those of others cannot be looked at."""
    wanted, found = f"{VARIABLE}={run_id}".encode(), 0
    for environ in proc.glob("[0-9]*/environ"):
        with suppress(OSError):
            found += wanted in environ.read_bytes().split(b"\0")
    return found


_PROCESS_SECONDS = 2.0  # between two readings of the command's processes
_COPY_SECONDS = 1.0  # for the last bytes of a command whose steps are counted
_MOST_NAMES = 100  # of recordings in one minute


@dataclass(frozen=True, slots=True)
class Watched:
    """A run that was watched: where its recording lies, its exit code (128 + n for a signal), and how long it took.

    `recording` is None where there is none: nothing could be written, or nothing be watched.
    """

    recording: Path | None
    exit_code: int
    seconds: float


def watch(
    words: Sequence[str],
    config: AgentConfig,
    environment: Mapping[str, str],
    say: Callable[[str], None],
    every_seconds: float | None = None,
    steps: re.Pattern[bytes] | None = None,
) -> Watched:
    """Run a command, watch it as far as that can be done, and return how it ended.

    `say` gets the line that is said before it begins, and what of ours has failed: none of that keeps the command.

    Raises:
        CommandError: it cannot be started.
    """
    clock, pids = Clock(), list[int]()
    # Signals are held before any thread begins, so that none of them takes one.
    with command.signals_held(), ExitStack() as opened:
        prepared = None
        with _said_where_it_fails(say, "nothing is watched: {}; the command runs"):
            prepared = _prepared(words, config, environment, every_seconds, steps, pids, clock, opened)
            say(f"watching {prepared.subject.what}; the report follows when the command ends")
        began = clock.monotonic()
        try:
            pids.append(_started(words, environment, prepared))
        except command.CommandError:
            if prepared is not None:
                prepared.place.path.unlink()
            raise
        if prepared is not None:
            with _said_where_it_fails(say, "watching has stopped: {}"):
                prepared.begin()
        ended = command.wait(pids[0])
        seconds, recording = (clock.monotonic() - began) / SECOND_US, None
        if prepared is not None:
            with _said_where_it_fails(say, "the recording is not whole: {}"):
                recording = prepared.place.path
                seconds = prepared.end(ended)
        return Watched(recording, ended.exit_code, seconds)


@contextmanager
def _said_where_it_fails(say: Callable[[str], None], sentence: str) -> Iterator[None]:
    """Say what failed of ours, whatever it is, and go on: the command must not notice."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  a fault of ours that nobody thought of must not end it either
        say(sentence.format(str(error).rstrip(".") or type(error).__name__))


@dataclass(frozen=True, slots=True)
class _Prepared:
    """All that is ready before the command begins."""

    subject: Subject
    place: "_Place"
    observed: _Observation
    environment: Mapping[str, str]  # of the command
    counter: StepCounter | None
    redirect: Mapping[int, int] | None  # of the command's streams, where its steps are counted

    def begin(self) -> None:
        """Begin to watch, once the command runs."""
        if self.counter is not None:
            self.counter.begin()
        self.observed.begin()

    def end(self, ended: Ended) -> float:
        """Complete the recording, and return how long the run took, in seconds."""
        if self.counter is not None:
            self.counter.finish(_COPY_SECONDS)
        return self.observed.end(ended)


def _prepared(
    words: Sequence[str],
    config: AgentConfig,
    environment: Mapping[str, str],
    every_seconds: float | None,
    steps: re.Pattern[bytes] | None,
    pids: Sequence[int],
    clock: Clock,
    opened: ExitStack,
) -> _Prepared:
    """Open the sources and the recording; `pids` gets the command's when it runs, `opened` closes all of it."""
    run_id = users_run_id(config.node_name, os.getuid(), str(uuid.uuid4()))
    counter = StepCounter(run_id, steps) if steps is not None else None
    said = opened.enter_context(closing(_said(run_id, config, environment, counted_columns(steps))))
    host_sources = open_host_sources(
        replace(config, process_seconds=_PROCESS_SECONDS), clock.wall, lambda: pids, run_id
    )
    opened.callback(host_sources.close)
    sources, gpus, no_gpu = _chosen_sources(host_sources, environment, every_seconds)
    subject = Subject(run_id, spoken(words), tuple(gpus), no_gpu)
    place = _Place()
    sources += [*([counter] if counter else []), *([Paced(said.source, _HOST_SECONDS)] if said.source else [])]
    observed = _Observation(config, subject, sources, clock, every_seconds, place.open)
    told = dict(environment) | said.environment | {VARIABLE: run_id}
    return _Prepared(subject, place, observed, told, counter, counter.open() if counter else None)


def _started(words: Sequence[str], environment: Mapping[str, str], prepared: _Prepared | None) -> int:
    if prepared is None:
        return command.start(words, environment)
    return command.start(words, prepared.environment, prepared.redirect)


def _said(run_id: str, config: AgentConfig, environment: Mapping[str, str], counted: Collection[str]) -> OwnProgress:
    """Return the socket on which the command can tell how far it is; not what is counted in its output already.

    An agent on this host, if there is one, hears of it too.
    """
    columns = [column for column in NUMBERS.values() if column not in counted]
    outer = environment.get(PROGRESS) or config.progress
    return OwnProgress(run_id, config.proc, columns, Path(outer) if outer else None)


class _Place:
    """Where the recording lies: in the working directory, or where temporary files go if that cannot be written."""

    def __init__(self) -> None:
        self.path = Path()

    def open(self, header: RecordingHeader) -> RecordingWriter:
        for path in _names():
            try:
                file = path.open("x", encoding="utf-8")
            except FileExistsError:
                continue
            except OSError:
                break
            self.path = path
            return RecordingWriter(file, header)
        return self._elsewhere(header)

    def _elsewhere(self, header: RecordingHeader) -> RecordingWriter:
        try:
            handle, name = tempfile.mkstemp(prefix="run-", suffix=".json")
        except OSError as error:
            raise AgentError(f"cannot write a recording here or in {tempfile.gettempdir()}: {error}") from error
        self.path = Path(name)
        return RecordingWriter(open(handle, "w", encoding="utf-8"), header)  # noqa: PTH123  closed at the end


def _names() -> Iterator[Path]:
    stem = f"run-{datetime.now().astimezone():%Y%m%d-%H%M}"
    yield Path(f"{stem}.json")
    yield from (Path(f"{stem}-{number}.json") for number in islice(count(2), _MOST_NAMES))
