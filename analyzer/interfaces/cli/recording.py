"""A recording of `gpuledger run`, read through the same door and judged by the same rules as a fleet's telemetry."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.wire import EnvelopeError
from agent.wire.envelope import open_envelope
from agent.wire.recording import Recording, RecordingEnd, RecordingHeader, read_recording
from analyzer.analysis import analyze
from analyzer.errors import LedgerError
from analyzer.ledger.believed import believing
from analyzer.prices.price_book import FlatPriced
from analyzer.reports.host_side import HostSide, host_side
from analyzer.reports.reader import Reader
from analyzer.reports.run import RunDocument
from collector.errors import BatchError
from collector.pipeline.batch_commit import BatchCommit
from collector.pipeline.decoding.batch import decode
from collector.store.database import Store
from collector.store.session import Session

_MEMORY_LIMIT = "1GB"
_BATCHES_AT_ONCE = 64
_STRETCHES = 60  # of a recording's timeline, however long it is
_SHORTEST_STRETCH_MS = 1_000  # the host is read once a second


@dataclass(frozen=True, slots=True)
class RecordingReport:
    """One command: how long it took, what its GPUs did (None where none was seen), and the host meanwhile.

    `ended` is None where the watcher was killed before the command ended; `refused` says why batches were not taken.
    """

    file: str
    header: RecordingHeader
    ended: RecordingEnd | None
    until: int
    run: RunDocument | None
    host: HostSide
    refused: tuple[str, ...]

    @property
    def microseconds(self) -> int:
        """How long it took, or was watched."""
        return max(0, self.until - self.header.started_at)


@dataclass(frozen=True, slots=True)
class RecordingLedger:
    """A recording in a store of its own, with its ledger made; `until` is its end, or up to when it was watched."""

    session: Session
    settings: FlatPriced
    recording: Recording
    until: int
    refused: tuple[str, ...]


@contextmanager
def booked(path: Path, price: int | None) -> Iterator[RecordingLedger]:
    """Load a recording into a store of its own, make its ledger, and hand both out while the store is there.

    Raises:
        LedgerError: the file is no recording.
    """
    try:
        recording = read_recording(path)
    except EnvelopeError as error:
        raise LedgerError(str(error)) from error
    with Store.open(None, memory_limit=_MEMORY_LIMIT) as store:
        refused = tuple(_load(store, recording))
        settings = FlatPriced(micros_per_gpu_hour=price)
        until = recording.end.ended_at if recording.end else _last_seen(store, recording)
        bucket_ms = max(_SHORTEST_STRETCH_MS, (until - recording.header.started_at) // 1000 // _STRETCHES)
        analyze(store, settings, now_us=until, bucket_ms=bucket_ms)
        with believing(store) as session:
            yield RecordingLedger(session, settings, recording, until, refused)


def recording_report(path: Path, price: int | None) -> RecordingReport:
    """Load a recording into a store of its own, make its ledger, and report on its run.

    Raises:
        LedgerError: the file is no recording.
    """
    with booked(path, price) as made:
        recording, until = made.recording, made.until
        run = _run(Reader(made.session, made.settings), recording)
        host = host_side(made.session, recording.header.run_id, recording.header.started_at, until)
    return RecordingReport(path.name, recording.header, recording.end, until, run, host, made.refused)


def _load(store: Store, recording: Recording) -> Iterator[str]:
    batches = []
    with BatchCommit(store) as batch_commit:
        for body in recording.batches:
            try:
                header, _ = open_envelope(body)
                batches.append(decode(body, header.sent_at))
            except (BatchError, EnvelopeError) as error:
                yield str(error)
            if len(batches) == _BATCHES_AT_ONCE:
                batch_commit.land(batches)
                batches = []
        batch_commit.land(batches)


def _last_seen(store: Store, recording: Recording) -> int:
    with believing(store) as session:
        latest = session.row(
            "SELECT max(ended_at) FROM (SELECT ended_at FROM gpu_samples UNION ALL SELECT ended_at FROM host_samples)"
        )[0]
    return max(int(latest or 0), recording.header.started_at)


def _run(reader: Reader, recording: Recording) -> RunDocument | None:
    if not recording.header.gpus:
        return None
    try:
        report = reader.run(recording.header.run_id)
    except LedgerError:  # it ended before its GPUs were read once
        return None
    status = report.facts.exit_status if recording.end else None
    return report.model_copy(update={"facts": report.facts.model_copy(update={"exit_status": status})})
