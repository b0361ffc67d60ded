"""A recording of `gpuledger run`, or a log of GPUs, read through the door of a fleet and judged by its rules."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agent.wire import EnvelopeError
from agent.wire.envelope import open_envelope
from agent.wire.recording import Recording, RecordingEnd, RecordingHeader, read_recording
from agent.wire.units import SECOND_US
from analyzer.errors import LedgerError
from analyzer.interfaces.cli.command import add_paper, is_ascii, price_micros, width_of, write
from analyzer.interfaces.text.recording_text import recording_markdown, recording_text
from analyzer.ledger.believed import believing
from analyzer.reports.host_side import RecordingReport, host_side
from analyzer.reports.request import Request
from analyzer.text.layout import TextLayout
from collector.errors import BatchError, UndatedError
from collector.pipeline.batch_commit import BatchCommit
from collector.pipeline.decoding.batch import decode
from collector.store.database import Store
from collector.store.session import Session

if TYPE_CHECKING:
    from analyzer.prices.price_book import FlatPriced
    from analyzer.reports.reader import Reader
    from analyzer.reports.run import RunDocument
    from collector.importing.importer import Imported
    from collector.importing.log_names import LogHints

_MEMORY_LIMIT = "1GB"
_BATCHES_AT_ONCE = 64
_STRETCHES = 60  # of a recording's timeline, however long it is
_LEAST_US = 10 * SECOND_US  # of a command that can be judged: it is read once a second, and starting is not working
_PIXELS = 2_000  # of its figure: as fine as is read, for who zooms in
_SHORTEST_STRETCH_MS = 1_000  # the host is read once a second


@dataclass(frozen=True, slots=True)
class RecordingLedger:
    """A recording in a store of its own, with its ledger made; `until` is its end, or up to when it was watched."""

    session: Session
    settings: "FlatPriced"
    recording: Recording
    until: int


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A recording in a store of its own, of which no ledger is made yet; why batches were `refused`."""

    store: Store
    recording: Recording
    until: int
    refused: tuple[str, ...]

    @contextmanager
    def ledger(self, price: int | None) -> Iterator[RecordingLedger]:
        """Make its ledger."""
        from analyzer.analysis import analyze  # a command without GPUs, or that was over at once, has none
        from analyzer.prices.price_book import FlatPriced

        settings = FlatPriced(micros_per_gpu_hour=price)
        bucket_ms = max(_SHORTEST_STRETCH_MS, (self.until - self.recording.header.started_at) // 1000 // _STRETCHES)
        analyze(self.store, settings, now_us=self.until, bucket_ms=bucket_ms)
        with believing(self.store) as session:
            yield RecordingLedger(session, settings, self.recording, self.until)


@contextmanager
def _loaded(path: Path) -> Iterator[_Loaded]:
    try:
        recording = read_recording(path)
    except EnvelopeError as error:
        raise LedgerError(str(error)) from error
    with Store.open(None, memory_limit=_MEMORY_LIMIT) as store:
        refused = tuple(_load(store, recording))
        until = recording.end.ended_at if recording.end else _last_seen(store, recording)
        yield _Loaded(store, recording, until, refused)


@contextmanager
def booked(path: Path, price: int | None) -> Iterator[RecordingLedger]:
    """Load a recording into a store of its own, make its ledger, and hand both out while the store is there.

    Raises:
        LedgerError: the file is no recording.
    """
    with _loaded(path) as loaded, loaded.ledger(price) as made:
        yield made


def recording_report(
    path: Path, price: int | None, look: Callable[[RecordingLedger], object] | None = None
) -> RecordingReport:
    """Load a recording into a store of its own, and report on its run; a ledger is made of what it says about GPUs.

    `look` is handed that ledger while it is there, where it tells of the run.

    Raises:
        LedgerError: the file is no recording.
    """
    with _loaded(path) as loaded:
        header, end, until = loaded.recording.header, loaded.recording.end, loaded.until
        why, run = _too_short(until - header.started_at, end) or _inseparable(header, end), None
        if header.gpus and not why:
            with loaded.ledger(price) as made:
                run = _run(made)
                if run is not None and look is not None:
                    look(made)
        with believing(loaded.store) as session:
            host = host_side(session, header.run_id, header.started_at, until)
    return RecordingReport(str(path), header, end, until, run, host, loaded.refused, why)


def recording_lanes(made: RecordingLedger) -> dict[str, object]:
    """Return the states and all signals of a recording over time, as a figure that asks no server for a zoom.

    Raises:
        LedgerError: its GPUs were not read for a second.
    """
    from analyzer.charts.lanes import run_lanes  # plotly takes 0.3 s, and most reports draw nothing
    from analyzer.reports.run_timeline import Remembered, TimelineAsked, read_timeline

    asked, run_id = TimelineAsked(width=_PIXELS), made.recording.header.run_id
    zoom = read_timeline(made.session, Remembered(), run_id, asked, made.settings.timezone)
    return run_lanes(replace(zoom, is_document=True))


def _too_short(microseconds: int, end: RecordingEnd | None) -> str:
    """Return why nothing is said of a command that was over at once: its start would be the whole figure."""
    if end is None or microseconds >= _LEAST_US:
        return ""
    told = (
        f"Too short to judge: it ended after {microseconds / SECOND_US:.1f} s; {_LEAST_US // SECOND_US} s are needed."
    )
    if end.left_processes:
        behind = f"{end.left_processes} {'process' if end.left_processes == 1 else 'processes'}"
        told += f" It left {behind} running, which nobody watches now: start what works under gpuledger run itself."
    return told


def _inseparable(header: RecordingHeader, end: RecordingEnd | None) -> str:
    """Return why nothing is said of a run that shared GPUs: the driver tells what a GPU did, not for whom."""
    if end is None or not end.shared_gpus:
        return ""
    where = "its GPU" if header.gpus == 1 else f"{end.shared_gpus} of its {header.gpus} GPUs"
    return f"Not separable: others used {where} beside it ({end.others}), so what the GPUs did is not this run's alone."


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


def _run(made: RecordingLedger) -> "RunDocument | None":
    from analyzer.reports.reader import Reader  # as above

    recording = made.recording
    try:
        report = Reader(made.session, made.settings).run(recording.header.run_id)
    except LedgerError:  # it ended before its GPUs were read once
        return None
    status = report.facts.exit_status if recording.end else None
    return report.model_copy(update={"facts": report.facts.model_copy(update={"exit_status": status})})


def report_recording(argv: list[str]) -> int:
    """A recording of one command that gpuledger run made, without any store."""
    parser = argparse.ArgumentParser(prog="gpuledger report recording", description=report_recording.__doc__)
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--price", metavar="P", help="dollars per GPU-hour; none is guessed")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with an earlier recording")
    add_paper(parser)
    options = parser.parse_args(argv)
    price, drawn = price_micros(options.price), list[dict[str, object]]()

    def draw(made: RecordingLedger) -> None:
        drawn.append(recording_lanes(made))

    now = recording_report(options.file, price, draw if options.format == "html" else None)
    before = recording_report(options.against, price) if options.against else None
    if options.format == "json":
        _write_json("recording", now, options)
    else:
        _write(options, now, before, drawn[0] if drawn else None)
    return 0


def compare_recordings(first: Path, second: Path, options: argparse.Namespace) -> int:
    """Write two recordings side by side; the first counts as before."""
    before, now = (recording_report(file, price_micros(options.price)) for file in (first, second))
    if options.format == "json":
        _write_json("compare_recordings", {"before": before, "after": now}, options)
    else:
        _write(options, now, before)
    return 0


def _write_json(schema: str, report: object, options: argparse.Namespace) -> None:
    from analyzer.text.as_json import as_json

    write(as_json(schema, report), options)


def _write(
    options: argparse.Namespace,
    now: RecordingReport,
    before: RecordingReport | None,
    lanes: dict[str, object] | None = None,
) -> None:
    if options.format == "markdown":
        write(recording_markdown(now, before), options)
        return
    text = recording_text(now, TextLayout(width_of(options.width), is_ascii(options)), before)
    if options.format == "html":
        from analyzer.interfaces.html import recording_html

        text = recording_html(now, before, lanes, text)
    write(text, options)


def log_answer(
    path: Path,
    hints: "LogHints",
    node: str | None,
    start: int | None,
    price: int | None,
    request: Request,
    answer: "Callable[[Reader, Request], str]",
) -> "tuple[Imported, str]":
    """Load a log of GPUs into a store of its own, make its ledger, and answer with its run, or its list of runs.

    Where the log has no dates, and none was said, its last row counts as when the file was last written.

    Raises:
        FileRefusedError: it is no log that can be read.
    """
    from analyzer.analysis import analyze  # as above
    from analyzer.prices.price_book import FlatPriced
    from analyzer.reports.reader import Reader
    from collector.importing.log_import import import_log  # a recording is no log

    with Store.open(None, memory_limit=_MEMORY_LIMIT) as store:
        try:
            log = import_log(store, path, hints, node, start)
        except UndatedError as error:
            start = path.stat().st_mtime_ns // 1000 - error.length
            log = import_log(store, path, hints, node, start)
            log.assumed = ("it has no dates: its last row counts as when the file was written; --start", *log.assumed)
        settings = FlatPriced(micros_per_gpu_hour=price)
        until = log.last or 0
        length_ms = (until - (log.first or until)) // 1000
        analyze(store, settings, now_us=until, bucket_ms=max(_SHORTEST_STRETCH_MS, length_ms // _STRETCHES))
        with believing(store) as session:
            reader = Reader(session, settings)
            if len(log.runs) == 1:
                return log, answer(reader, replace(request, what="run", subject=log.runs[0]))
            days = [datetime.fromtimestamp(at / SECOND_US, UTC).date().isoformat() for at in (log.first or 0, until)]
            return log, answer(reader, replace(request, what="runs", since=days[0], until=days[1]))
