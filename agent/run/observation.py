"""One run under observation: the sources, chosen and paced for it, the beat on its thread, and the recording."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from agent.clock import Clock
from agent.daemon.about import cpu_seconds, rss_bytes
from agent.delivery.batch import Batcher
from agent.errors import AgentError, SourceError
from agent.run.command import Ended
from agent.run.visible import ChosenGpus, Gpu, visible, visible_gpus
from agent.sampling.sampler import Paced, Sampler, Stamped
from agent.sampling.stamp import Stamper
from agent.sampling.wiring import HostSources
from agent.settings.config import AgentConfig
from agent.source import Row, Source, Value
from agent.wire.recording import VERSION, RecordingEnd, RecordingHeader, RecordingWriter
from agent.wire.units import SECOND_US

_LOG = logging.getLogger(__name__)
_GPU_SECONDS = 0.1  # between two readings, where there is a GPU and nobody asked otherwise
HOST_SECONDS = 1.0
_BATCH_SECONDS = 30.0
# A recording must not grow for ever: from these ages of a run on (seconds) the beat is at least this slow.
_SLOWER = ((36_000.0, 10.0), (3_600.0, 1.0))
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
        skus = [gpu.sku or "GPU" for gpu in self.gpus]
        return ", ".join(f"{skus.count(sku)} x {sku}" for sku in dict.fromkeys(skus)) + " and this host"


def chosen_sources(
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
        except SourceError as error:
            no_gpu = str(error)
        else:
            gpus = visible(visible_gpus(first.get("inventory", [])), environment)
            no_gpu = "" if gpus else "the environment's list of visible GPUs names none of this host's"
    paced: list[Source] = [Paced(source, max(HOST_SECONDS, every or 0)) for source in sources]
    return ([ChosenGpus(host_sources.gpus, gpus, first), *paced] if gpus else paced), gpus, no_gpu


class Observation:
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
        beat = every_seconds or (_GPU_SECONDS if subject.gpus else HOST_SECONDS)
        self._subject = subject
        self._clock = clock
        self._proc = config.proc
        self._stamper = Stamper(config.node_name)
        self._sampler = Sampler(self._stamper, sources, clock, beat)
        self._batcher = Batcher(config.node_name, clock, _BATCH_SECONDS, self._append)
        self._sequence = 0
        self._unwritten = 0
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
            host_seconds=max(HOST_SECONDS, beat),
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
        )
        self._written(lambda: self._writer.end(end))
        if self._unwritten:
            _LOG.warning("%d parts of the recording could not be written", self._unwritten)
        return took / SECOND_US

    def _run(self) -> None:
        try:
            self._sampler.run(self._stop, self._deliver)
        except AgentError as error:
            _LOG.warning("nothing is read any more: %s", error)

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
            return [row for row in rows if row.get("gpu_uuid") in mine]
        if table == "allocations":
            return [row for row in rows if row.get("gpu_uuid") in mine and row.get("run_id") != self._subject.run_id]
        return rows

    def _tell_run(self, ended: Ended, until: int) -> None:
        """Add what is known only now: the run's holding of its GPUs, from begin to end."""
        began = self._header.started_at
        held: list[Row] = [
            self._allocation(gpu, rank, began, until, ended) for rank, gpu in enumerate(self._subject.gpus)
        ]
        owned: list[Row] = [
            {"gpu_uuid": gpu.uuid, "owned_from": began, "owned_until": until, "sku": gpu.sku, "source": "agents"}
            for gpu in self._subject.gpus
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
