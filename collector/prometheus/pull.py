"""Pull a history of GPU telemetry from Prometheus or VictoriaMetrics into the store, day by day, each day once.

`survey` says what is there, `pull` brings it. What is pulled between two midnights is one parcel, known by its server
and its bounds: a pull that is broken off goes on where it stopped, and one that is repeated adds nothing.

How it is asked was measured, on the same day of 192 GPUs (docs/import-prometheus.md): the samples as they are stored,
by a range vector of Prometheus or an export of VictoriaMetrics. A query of steps would be as fast, and repeats the
last sample for five minutes where there is none: silence would look like work.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pyarrow as pa

from agent.wire.tables import TABLES
from agent.wire.units import DAY_US, MILLISECOND_US
from collector.pipeline.batch_commit import ChunkedImport, chunked_import
from collector.pipeline.decoding.validation import pc
from collector.prometheus.client import Client, SeriesAnswer
from collector.prometheus.gathering import Gathered, Gathering, Holders, LabelledGpu, Witnesses, inventory
from collector.prometheus.labels import DEFAULT, Clusters, Subject
from collector.prometheus.names import catalogue
from collector.prometheus.survey import (
    Question,
    Survey,
    host_names,
    of_instances,
    primaries,
    questions,
    survey,
    table_steps,
    target_labels,
    target_pods,
)
from collector.store.database import Store


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, microseconds UTC, half-open. `batch` is that of the parcel that holds it, if one does."""

    since: int
    until: int
    batch: int | None = None


def stream_of(source: str, span: Span) -> str:
    """Return the name under which the parcel of a span is known."""
    return f"prometheus:{source}:{span.since}-{span.until}"


def covered(store: Store, source: str) -> list[Span]:
    """Return the spans that a store has of a source, in order.

    Raises:
        StoreError: the store cannot be read.
    """
    prefix = f"prometheus:{source}:"
    with store.session() as session:
        found = session.rows("SELECT stream, batch FROM receipts WHERE starts_with(stream, ?)", [prefix])
    spans = [_span(stream.removeprefix(prefix), batch) for stream, batch in found]
    return sorted((span for span in spans if span is not None), key=lambda span: span.since)


def days(since: int, until: int, held: Sequence[Span] = ()) -> list[Span]:
    """Return what lies between two times, cut at each midnight and where the store has it already."""
    spans: list[Span] = []
    at = since
    for span in [span for span in held if span.until > since and span.since < until]:
        spans += _cut(at, min(span.since, until))
        spans.append(span)
        at = max(at, span.until)
    return spans + _cut(at, until)


def windows(span: Span, length: int) -> list[tuple[int, int]]:
    """Return a span cut into windows of at most this length."""
    return [(at, min(at + length, span.until)) for at in range(span.since, span.until, length)]


def _cut(since: int, until: int) -> list[Span]:
    spans = []
    while since < until:
        end = min(until, (since // DAY_US + 1) * DAY_US)
        spans.append(Span(since, end))
        since = end
    return spans


def _span(name: str, batch: int) -> Span | None:
    since, dash, until = name.partition("-")
    return Span(int(since), int(until), batch) if dash and since.isdecimal() and until.isdecimal() else None


_WINDOW_ROWS = 200_000  # of gpu_samples that are put together at a time
_SHORTEST_WINDOW, _LONGEST_WINDOW = 600_000_000, 21_600_000_000  # microseconds
_LATE = 3_600_000_000  # microseconds after the beginning of the span: metrics that begin later are told
_QUESTIONS = 2  # on their way at a time: one is answered while the other is read

_Window = tuple[int, int]  # microseconds UTC
Progress = Callable[[int, int, "Day | None"], None]  # days done, days in all, the last of them


@dataclass(frozen=True, slots=True)
class Day:
    """What became of one day. `expected` and `stored` count rows of gpu_samples, one a GPU and scrape."""

    started_at: int  # microseconds UTC
    ended_at: int
    expected: int
    stored: int
    rows: Mapping[str, int]  # of every table
    implausible: int  # values that no GPU can have, left out
    repeated: bool  # the store had this day already


@dataclass(frozen=True, slots=True)
class Pulled:
    """All days of a pull.

    `columns` has, of each table, the columns that had a value in some row: what this source can tell. `holders` says
    by the labels of the exporter which pod or Slurm job held a GPU, one row a stretch of scrapes with the same
    labels: node, gpu_uuid, started_at, ended_at (microseconds UTC), namespace, pod, container, hpc_job (texts or null).
    It covers the days that were read now, not those that the store had.
    """

    found: Survey
    days: tuple[Day, ...]
    columns: Mapping[str, frozenset[str]]
    holders: pa.Table
    notes: tuple[str, ...] = field(default=())  # sentences about what was left out, and why

    @property
    def expected(self) -> int:
        """Rows of gpu_samples, had every scrape of every GPU succeeded."""
        return sum(day.expected for day in self.days)

    @property
    def stored(self) -> int:
        """Rows of gpu_samples that are in the store, those of earlier pulls of the same days included."""
        return sum(day.stored for day in self.days)


def source_of(url: str, match: str = "") -> str:
    """Return the name by which a server's parcels are known: its address, shortened, and what is asked for of it."""
    place = urlsplit(url)
    port = place.port or {"http": 80, "https": 443}.get(place.scheme)
    plain = f"{(place.hostname or '').lower()}:{port}{place.path.rstrip('/')}"
    plain += f"{{{match}}}" if match else ""
    return f"{plain[:100]}#{hashlib.sha256(plain.encode()).hexdigest()[:8]}"


def pull(
    client: Client,
    store: Store | None,
    since: int,
    until: int,
    progress: Progress | None = None,
    *,
    found: Survey | None = None,
    step_seconds: float | None = None,
    tables: Sequence[str] = ("gpu_samples",),
    clusters: Clusters = DEFAULT,
) -> Pulled:
    """Bring what the server has between two times (microseconds UTC) into the store; without one nothing is written.

    Memory is bounded: some answers and one window of rows at a time. With `step_seconds` one row stands for so much
    time instead of one scrape: the mean of its gauges, its counters' growth. `tables` are those that are wanted;
    `found` is what `survey` returned, where it was asked before; `clusters` are what pods and jobs that serve are of.

    Raises:
        ServerError: the server failed for longer than the client is patient; days that are done stay.
        StoreError: the store refused a day; days that are done stay.
    """
    found = found or survey(client, since, until)
    puller = _Puller(client, store, found, step_seconds, tables, clusters)
    spans = days(since, until, covered(store, puller.source) if store is not None else ())
    done: list[Day] = []
    progress = progress or _quietly
    progress(0, len(spans), None)
    try:
        for span in spans:
            done.append(puller.held(span) if span.batch is not None else puller.day(span))
            progress(len(done), len(spans), done[-1])
    finally:
        puller.close()
    columns = {table: frozenset(names) for table, names in puller.columns.items()}
    return Pulled(found, tuple(done), columns, puller.holders.table(), puller.notes)


def _quietly(_done: int, _days: int, _last: Day | None) -> None:
    """Tell nobody."""


class _Puller:
    """Brings one span after another."""

    def __init__(
        self,
        client: Client,
        store: Store | None,
        found: Survey,
        step_seconds: float | None,
        tables: Sequence[str],
        clusters: Clusters,
    ) -> None:
        self.source = source_of(client.server.url, client.server.match)
        self.columns: dict[str, set[str]] = {}
        self._store = store
        self._found = found
        self._step = None if step_seconds is None else round(step_seconds * 1000)
        self._usual = self._step or round((found.scrape_seconds or 30.0) * 1000)
        self._witnesses: Witnesses = {}
        self._since: int | None = None  # from when on was read, and the first
        self._first: int | None = None  # of the GPU samples that were read, microseconds UTC
        self.holders = Holders(self._usual, self._witnesses)
        known = [catalogue()[name] for name in found.metrics]
        self._questions = questions(known, tuple(tables), self._usual, self._step)
        self._steps = table_steps(self._questions)
        self._of_holders = {metric.name for metric in (*primaries(known), *of_instances(known))}
        self._names: dict[str, str] = {}
        self._clusters = clusters
        self._strangers: set[str] = set()
        self._nameless: set[str] = set()
        self._mixed: set[Subject] = set()
        self._clients = [client, *(client.another() for _ in range(_QUESTIONS - 1))]
        self._asking = ThreadPoolExecutor(_QUESTIONS, thread_name_prefix="prometheus")

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what was left out, and why."""
        told = []
        if self._first is not None and self._since is not None and self._first - self._since > _LATE:
            moment = datetime.fromtimestamp(self._first / 1e6, UTC)
            told.append(f"GPU metrics begin {moment:%Y-%m-%d %H:%M} UTC: nothing is known of the time before")
        if self._found.scrape_seconds is None and self._found.gpus:
            told.append("no GPU was scraped twice in a row: no sample has an interval")
        if self._strangers:
            theirs, ours = min(self._strangers), min(self._found.nodes, default="none")
            told.append(
                f"{len(self._strangers)} hosts of node_exporter have no GPU, or a name that "
                f"differs from the GPU exporter's (such as {theirs} beside {ours}): left out"
            )
        if self._nameless:
            told.append(
                f"{len(self._nameless)} servers of vLLM, Triton or TGI name neither a pod nor a run_id "
                f"(such as {min(self._nameless)}): left out"
            )
        if self._mixed:
            told.append(
                f"{len(self._mixed)} services of Triton have several models (such as "
                f"{min(found.key('run_id') or '' for found in self._mixed)}): their requests are left out, since those "
                "of an ensemble are counted with its members; keep the series of the model that counts, by --match or "
                "a relabelling"
            )
        return tuple(told)

    def close(self) -> None:
        """Let go of the connections."""
        self._asking.shutdown(cancel_futures=True)
        for one in self._clients[1:]:
            one.close()

    def held(self, span: Span) -> Day:
        """Return what the store has of a span that was pulled before."""
        if self._store is None:
            raise AssertionError("BUG: a span is held by no store")
        counts: dict[str, int] = {}
        with self._store.session() as session:
            for table in ("gpu_samples",):
                names = [column.name for column in TABLES[table].columns]
                listed = ", ".join(f"count({name})" for name in names)
                total, *found = session.row(f"SELECT count(*), {listed} FROM {table} WHERE batch = ?", [span.batch])
                counts[table] = total
                self._saw(table, [name for name, count in zip(names, found, strict=True) if count])
        return Day(span.since, span.until, self._expected(span), counts["gpu_samples"], counts, 0, repeated=True)

    def day(self, span: Span) -> Day:
        """Pull one span, and return what became of it."""
        if self._store is None:
            return self._read(span, None)
        stream = stream_of(self.source, span)
        body_hash = hashlib.sha256(stream.encode()).hexdigest()
        with chunked_import(
            self._store, agent=f"prometheus:{self.source}", stream=stream, body_hash=body_hash
        ) as taking:
            if taking is None:
                raise AssertionError("BUG: a span is pulled that the store has")
            return self._read(span, taking)

    def _read(self, span: Span, taking: ChunkedImport | None) -> Day:
        self._since = span.since if self._since is None else self._since
        counts: dict[str, int] = {}
        gpus: dict[Subject, LabelledGpu] = {}
        implausible = 0
        for gathered in self._windows(span):
            implausible += gathered.implausible
            gpus |= gathered.gpus
            for name, rows in gathered.tables.items():
                counts[name] = counts.get(name, 0) + rows.num_rows
                self._saw(name, [column for column in rows.column_names if rows[column].null_count < rows.num_rows])
                if name == "gpu_samples" and rows.num_rows:
                    first = pc.min(rows["started_at"]).as_py()
                    self._first = first if self._first is None else min(first, self._first)
                if taking is not None and rows.num_rows:
                    taking.add(name, rows)
        if taking is not None and gpus:
            taking.add("inventory", inventory(gpus, span.since, span.until))
        stored = counts.get("gpu_samples", 0)
        return Day(span.since, span.until, self._expected(span), stored, counts, implausible, repeated=False)

    def _windows(self, span: Span) -> Iterator[Gathered]:
        """Yield the rows of one window after another, asking for the next while the last is put together."""
        rows_a_second = max(1, self._found.gpus) * 1000 / self._usual
        length = min(_LONGEST_WINDOW, max(_SHORTEST_WINDOW, int(_WINDOW_ROWS / rows_a_second * 1e6)))
        of_span = self._clients[0], span.since // MILLISECOND_US, span.until // MILLISECOND_US
        self._names |= host_names(*of_span, self._steps)
        clusters = replace(
            self._clusters,
            exporters=target_pods(*of_span),
            of_targets=target_labels(*of_span),
            hosts=self._found.other_names,
        )
        asked = ((part, question) for part in windows(span, length) for question in self._questions)
        gathering = Gathering(self._found.nodes, self._names, clusters, self._witnesses)
        left = len(self._questions)
        for (since, until), question, answer in self._answers(asked):
            gathering.add(question.metric, answer)
            if question.metric.name in self._of_holders:
                self.holders.add(question.metric, answer, clusters)
            left -= 1
            if not left:
                yield gathering.rows(since // MILLISECOND_US, until // MILLISECOND_US, self._steps)
                self._strangers |= gathering.strangers
                self._nameless |= gathering.nameless
                self._mixed |= gathering.models.mixed
                gathering = Gathering(self._found.nodes, self._names, clusters, self._witnesses)
                left = len(self._questions)

    def _answers(self, asked: Iterator[tuple[_Window, Question]]) -> Iterator[tuple[_Window, Question, SeriesAnswer]]:
        """Yield the answers in the order of the questions, with so many on their way at a time as there are clients."""
        free = deque(self._clients)
        waiting: deque[tuple[_Window, Question, Client, Future[SeriesAnswer]]] = deque()

        def ask() -> None:
            for part, question in asked:
                client = free.popleft()
                since, until = part[0] // MILLISECOND_US, part[1] // MILLISECOND_US
                waiting.append((part, question, client, self._asking.submit(question.ask, client, since, until)))
                if not free:
                    return

        ask()
        while waiting:
            part, question, client, answer = waiting.popleft()
            found = answer.result()
            free.append(client)
            ask()
            yield part, question, found

    def _expected(self, span: Span) -> int:
        if self._found.scrape_seconds is None:
            return 0
        return round(self._found.gpus * (span.until - span.since) / (self._usual * MILLISECOND_US))

    def _saw(self, table: str, names: Sequence[str]) -> None:
        self.columns.setdefault(table, set()).update(names)
