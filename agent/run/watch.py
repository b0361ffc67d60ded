"""Profile one command on this machine: `gpuledger run -- CMD`.

The GPUs are read ten times a second and the host once, from before the command begins until it has ended, into a
recording (agent.wire.recording). No server, no root; of the command nothing is touched but its environment, which
tells it the id of its run.
"""

import os
import re
import shlex
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count, islice
from pathlib import Path

from agent.attribution.declared import VARIABLE, users_run_id
from agent.clock import SystemClock
from agent.errors import AgentError
from agent.run import command
from agent.run.observation import HOST_SECONDS, Observation, Subject, chosen_sources
from agent.run.steps import StepCounter
from agent.sampling.sampler import Paced
from agent.sampling.wiring import open_host_sources
from agent.settings.config import AgentConfig
from agent.sources.progress import VARIABLE as PROGRESS
from agent.sources.progress import OwnProgress
from agent.sources.progress.message import NUMBERS
from agent.wire.recording import RecordingHeader, RecordingWriter

_COMMAND_CHARACTERS = 120  # of the command's words; they stay in the recording, on this machine
_PROCESS_SECONDS = 2.0  # between two readings of the command's processes
_COPY_SECONDS = 1.0  # for the last bytes of a command whose steps are counted
_LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID")  # torchrun, srun
_MOST_NAMES = 100  # of recordings in one minute


@dataclass(frozen=True, slots=True)
class Watched:
    """A run that was watched: where its recording lies, its exit code (128 + n for a signal), and how long it took."""

    recording: Path
    exit_code: int
    seconds: float


def reports_here(environment: Mapping[str, str]) -> bool:
    """Return whether this process reports for its node, where a launcher has started one for each GPU."""
    return all(environment.get(name, "0") == "0" for name in _LOCAL_RANKS)


def spoken(words: Sequence[str]) -> str:
    """Return a command as a person would type it, in one line and shortened."""
    text = " ".join(shlex.join(words).split())
    return text if len(text) <= _COMMAND_CHARACTERS else f"{text[: _COMMAND_CHARACTERS - 1]}…"


def watch(
    words: Sequence[str],
    config: AgentConfig,
    environment: Mapping[str, str],
    say: Callable[[str], None],
    every_seconds: float | None = None,
    steps: re.Pattern[bytes] | None = None,
) -> Watched:
    """Run a command, watch it, and return how it ended. `say` gets the one line that is said before it begins.

    Raises:
        CommandError: it cannot be started.
        AgentError: the recording cannot be written anywhere, or the GPU library does not fit its driver.
    """
    clock = SystemClock()
    run_id = users_run_id(config.node_name, os.getuid(), str(uuid.uuid4()))
    counter = StepCounter(run_id, steps) if steps is not None else None
    pids: list[int] = []
    # Signals are held before any thread begins, so that none of them takes one.
    with command.signals_held(), closing(_said(run_id, config, environment, counted=counter is not None)) as said:
        host_sources = open_host_sources(
            replace(config, process_seconds=_PROCESS_SECONDS), clock.wall, lambda: pids, run_id
        )
        try:
            sources, gpus, no_gpu = chosen_sources(host_sources, environment, every_seconds)
            subject = Subject(run_id, spoken(words), tuple(gpus), no_gpu)
            say(f"watching {subject.what}; the report comes at the end")
            place = _Place()
            sources += [*([counter] if counter else []), *([Paced(said.source, HOST_SECONDS)] if said.source else [])]
            observed = Observation(config, subject, sources, clock, every_seconds, place.open)
            try:
                redirect = counter.open() if counter else None
                told = dict(environment) | said.environment | {VARIABLE: run_id}
                pids.append(command.start(words, told, redirect))
            except command.CommandError:
                place.path.unlink()
                raise
            if counter is not None:
                counter.begin()
            observed.begin()
            ended = command.wait(pids[0])
            if counter is not None:
                counter.finish(_COPY_SECONDS)
            return Watched(place.path, ended.exit_code, observed.end(ended))
        finally:
            host_sources.close()


def _said(run_id: str, config: AgentConfig, environment: Mapping[str, str], *, counted: bool) -> OwnProgress:
    """Return the socket on which the command can tell how far it is; not its steps, where they are counted already.

    An agent on this host, if there is one, hears of it too.
    """
    columns = [column for column in NUMBERS.values() if column != "steps" or not counted]
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
