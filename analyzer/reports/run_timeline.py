"""A run over time, as fine as a screen can show: the ledger's states, the signals under them, ranks, and marks.

A signal has a line with the spread of its ranks (GPUs, disks, workers), and one of them its ranks too. Roll-ups chosen
for the width of the screen come from the store's tiers; only what the eye can tell apart is sent.
"""

import json
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from agent.wire.units import MINUTE_US, PERMILLE, SECOND_US
from analyzer.charts.lanes import Band, Lane, Mark, Ranks, Ribbon, RunTimeline, run_lanes
from analyzer.errors import LedgerError
from analyzer.ledger.coverage import TimelinePoint, timeline
from analyzer.ledger.run_facts import find_run
from analyzer.period import WINDOW_MS
from analyzer.reports.document import iso
from analyzer.reports.run import run_facts, run_span
from analyzer.states import CLASSES, Class, booking
from analyzer.text.table import csv_text
from analyzer.text.words import plain
from collector.lake.series import Series, Subject, TableExtent, gpus_of_run, series
from collector.store.session import Session
from collector.tier_tables import tiered

T = TypeVar("T")
BUCKET_US = WINDOW_MS * 1000  # how finely the ledger keeps a run's states
_WIDTHS = (160, 2000)
_PIXELS_A_POINT, _PIXELS_A_BAR = 2, 3
_MARKS_SHOWN = 400
_EVENTS_READ, _EVENTS_SHOWN = 10_000, 100
_EVENT_GAP_US = 10 * MINUTE_US  # between two rows of one state of a host: they are told every few minutes
_WORKED_PERMILLE = 50  # a stretch in which less of the GPUs' time than this was work is a stall
_LOSS_LEAST = 0.1  # of a stretch's GPU time
_NOT_A_STALL = ("starting", "checkpointing")
_GPUS_READ = 256  # of a larger run the first of them, in the order of their hosts
_REPLICAS_READ = 64  # of a service, by their pods' names
RANKS_SHOWN = 64  # of more GPUs a row is a host
_REMEMBERED, _REMEMBERED_SECONDS = 64, 120.0
_DIGITS = 4
_EVER = 2**62


@dataclass(frozen=True, slots=True)
class Signal:
    """One lane: where it is read from. The first of its columns that anybody told is shown, under its own title."""

    key: str
    table: str
    columns: tuple[tuple[str, str], ...]  # column, title
    unit: str  # as of a lane


SIGNALS = (
    Signal(
        "sm", "gpu_samples", (("sm_active_ratio", "SM activity"), ("utilization_ratio", "GPU busy (NVML)")), "ratio"
    ),
    Signal("tensor", "gpu_samples", (("tensor_active_ratio", "tensor cores"),), "ratio"),
    Signal("power", "gpu_samples", (("power_watts", "power"),), "W"),
    Signal("hbm", "gpu_samples", (("dram_active_ratio", "HBM"),), "ratio"),
    Signal("pcie", "gpu_samples", (("pcie_receive_bytes", "PCIe in"),), "B/s"),
    Signal("disk", "disk_samples", (("read_bytes", "disk reads"),), "B/s"),
    Signal("workers", "process_samples", (("workers_busiest_cpu_ratio", "busiest worker"),), "ratio"),
    Signal("requests", "service_samples", (("requests", "requests of a replica"),), "/s"),
    Signal("errors", "service_samples", (("requests_failed", "failed requests"),), "/s"),
    Signal("tokens", "service_samples", (("tokens_out", "tokens generated"), ("tokens_in", "prompt tokens")), "/s"),
    Signal(
        "first",
        "service_samples",
        (("first_token_seconds_p99", "first token (P99)"), ("first_token_seconds_p50", "first token (median)")),
        "s",
    ),
    Signal("between", "service_samples", (("inter_token_seconds_p99", "between tokens (P99)"),), "s"),
    Signal("queue", "service_samples", (("waiting", "requests waiting"),), ""),
    Signal("cache", "service_samples", (("kv_cache_ratio", "KV cache"),), "ratio"),
)
_BY_KEY = {signal.key: signal for signal in SIGNALS}


@dataclass(frozen=True, slots=True)
class RunGpus:
    """The GPUs of a run in the order of their hosts, when it held each, and what people call them."""

    gpus: Subject
    spans: dict[str, list[tuple[int, int]]]
    names: dict[str, str]
    nodes: dict[str, str]
    left_out: int
    served_as: tuple[str, ...] = ()  # by which names hosts tell of it, of a run that serves

    @classmethod
    def of(cls, session: Session, run_id: str) -> "RunGpus":
        """Ask the store."""
        all_gpus = gpus_of_run(session, run_id)
        rows = session.rows(
            "SELECT gpu_uuid, node, started_at, coalesce(ended_at, ?) FROM allocations "
            "WHERE run_id = ? AND started_at IS NOT NULL AND gpu_uuid IS NOT NULL",
            [_EVER, run_id],
        )
        spans: dict[str, list[tuple[int, int]]] = {}
        nodes: dict[str, str] = {}
        for gpu, node, start, end in rows:
            spans.setdefault(gpu, []).append((start, end))
            nodes[gpu] = node
        indices = dict(
            session.rows(
                "SELECT gpu_uuid, arg_max(gpu_index, started_at) FROM inventory WHERE gpu_index IS NOT NULL "
                "AND gpu_uuid IN (SELECT unnest(?)) GROUP BY gpu_uuid",
                [list(all_gpus.values)],
            )
        )
        order = sorted(all_gpus.values, key=lambda gpu: (nodes.get(gpu, ""), indices.get(gpu, 0), gpu))
        names = {gpu: f"{nodes.get(gpu, '')} GPU {indices.get(gpu, gpu)}" for gpu in order}
        shown = Subject("gpu_samples", "gpu_uuid", tuple(order[:_GPUS_READ]), all_gpus.nodes)
        return cls(shown, spans, names, nodes, max(0, len(order) - _GPUS_READ), _served_as(session, run_id))


def _served_as(session: Session, run_id: str) -> tuple[str, ...]:
    """Return the names by which hosts tell of a service: a pod's leads to its owner's. Of other runs there are none."""
    if not session.row("SELECT EXISTS (FROM served_amounts WHERE run_id = ?)", [run_id])[0]:
        return ()
    names = session.rows(
        f"""
        WITH first AS (SELECT DISTINCT alias_run_id AS name FROM run_aliases WHERE run_id = ?)
        SELECT name FROM first UNION SELECT alias_run_id FROM run_aliases JOIN first ON run_id = name
        ORDER BY name LIMIT {_REPLICAS_READ}
        """,
        [run_id],
    )
    return (run_id, *(name for (name,) in names if name != run_id))


class Remembered:
    """What changes rarely and is asked at every zoom: what the store has of a table, which GPUs a run held.

    At most REMEMBERED answers, each for REMEMBERED_SECONDS, of one state of the ledger: what has expired since is not
    there to be read.
    """

    def __init__(self) -> None:
        self._state: Hashable = None
        self._answers: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, state: Hashable) -> "Remembered":
        """Return what is remembered of a state of the ledger; of another one all is forgotten."""
        if state != self._state:
            self._answers = OrderedDict()
            self._state = state
        return self

    def tiers(self, session: Session, table: str) -> TableExtent:
        """Return what the store has of a table."""
        return self._get((TableExtent, table), lambda: TableExtent.of(session, tiered(table)))

    def held(self, session: Session, run_id: str) -> RunGpus:
        """Return the GPUs of a run."""
        return self._get((RunGpus, run_id), lambda: RunGpus.of(session, run_id))

    def _get(self, key: Hashable, make: Callable[[], T]) -> T:
        answers = self._answers
        with self._lock:
            known_at, answer = answers.get(key, (-_REMEMBERED_SECONDS, None))
        if time.monotonic() - known_at < _REMEMBERED_SECONDS and answer is not None:
            remembered: T = answer
            return remembered
        made = make()
        with self._lock:
            answers[key] = (time.monotonic(), made)
            answers.move_to_end(key)
            while len(answers) > _REMEMBERED:
                answers.popitem(last=False)
        return made


def read_signals(
    session: Session, known: Remembered, run_id: str, span: tuple[int, int], points: int, ranked: str
) -> tuple[list[Lane], Ranks | None]:
    """Return the lanes that anybody told in the span, and the ranks of one signal of the GPUs."""
    lanes, ranks, held = [], None, known.held(session, run_id)
    told = _told(session, known, run_id, held, span, points)
    for signal in SIGNALS:
        for column, title in signal.columns:
            each = [masked(one, held) for one in told if one.column == column]
            lane = _lane(signal, title, each)
            if lane is not None:
                lanes.append(lane)
                if signal.key == ranked and signal.table == "gpu_samples":
                    ranks = ranks_of(lane, each, held)
                break
    return lanes, ranks


def _told(
    session: Session, known: Remembered, run_id: str, held: RunGpus, span: tuple[int, int], points: int
) -> list[Series]:
    """Return every series of the span: one query a table."""
    nodes = held.gpus.nodes
    subjects = {
        "gpu_samples": held.gpus,
        "disk_samples": Subject("disk_samples", "node", nodes),
        "process_samples": Subject("process_samples", "run_id", (run_id,), nodes),
        "service_samples": Subject("service_samples", "run_id", held.served_as),
    }
    found: list[Series] = []
    for table, subject in subjects.items():
        columns = [column for signal in SIGNALS if signal.table == table for column, _ in signal.columns]
        found += series(session, subject, columns, *span, points, known.tiers(session, table))
    return found


def masked(one: Series, held: RunGpus) -> Series:
    """Leave out what a GPU did while the run did not hold it: that is somebody else's."""
    spans = held.spans.get(one.subject)
    end = one.start + len(one.mean) * one.step_us
    if spans is None or any(start <= one.start and until >= end for start, until in spans):
        return one
    at = range(one.start, end, one.step_us)
    mask = pa.array([any(start < point + one.step_us and until > point for start, until in spans) for point in at])
    none = pa.scalar(None, pa.float64())
    mean, least, most = (pc.if_else(mask, each, none) for each in (one.mean, one.least, one.most))
    return Series(one.subject, one.column, one.start, one.step_us, mean, least, most)


def _lane(signal: Signal, title: str, each: list[Series]) -> Lane | None:
    if not each or all(one.mean.null_count == len(one.mean) for one in each):
        return None
    count = len(each[0].mean)
    points = pa.array(list(range(count)) * len(each))
    table = pa.table({"point": points, "mean": pa.concat_arrays([one.mean for one in each])})
    spread = table.group_by("point").aggregate([("mean", "mean"), ("mean", "min"), ("mean", "max")]).sort_by("point")
    mean, least, most = (_rounded(spread.column(f"mean_{how}").to_pylist()) for how in ("mean", "min", "max"))
    return Lane(signal.key, title, signal.unit, each[0].start, each[0].step_us, mean, least, most)


def _rounded(values: list[float | None]) -> list[float | None]:
    return [None if value is None else float(f"{value:.{_DIGITS}g}") for value in values]


def ranks_of(lane: Lane, each: list[Series], held: RunGpus) -> Ranks:
    """Return a row a GPU; of a large run a row a host."""
    if len(each) <= RANKS_SHOWN:
        rows = {held.names[one.subject]: [one] for one in each}
    else:
        rows = {}
        for one in each:
            rows.setdefault(held.nodes[one.subject], []).append(one)
    highest = max((value for value in lane.most if value is not None), default=1.0)
    top = 1.0 if lane.unit == "ratio" else highest or 1.0
    shown = list(rows.items())[:RANKS_SHOWN]
    values = [_row(of, top) for _, of in shown]
    left_out = held.left_out + sum(len(of) for _, of in list(rows.items())[RANKS_SHOWN:])
    names = [name for name, _ in shown]
    return Ranks(lane.key, lane.title, lane.unit, top, lane.start, lane.step, names, values, left_out)


def _row(of: list[Series], top: float) -> list[int | None]:
    columns = [one.mean.to_pylist() for one in of]
    found: list[int | None] = []
    for values in zip(*columns, strict=True):
        told = [value for value in values if value is not None]
        found.append(round(PERMILLE * min(1.0, sum(told) / len(told) / top)) if told else None)
    return found


@dataclass(frozen=True, slots=True)
class TimelineAsked:
    """The span in microseconds UTC (None: all of the run), the width in pixels, and whose ranks are compared."""

    start: int | None = None
    end: int | None = None
    width: int = 1000
    ranks: str = "sm"
    format: Literal["json", "csv"] = "json"

    @property
    def pixels(self) -> int:
        """The width, within reason."""
        return max(_WIDTHS[0], min(_WIDTHS[1], self.width))


def read_timeline(session: Session, known: Remembered, text: str, asked: TimelineAsked, timezone: str) -> RunTimeline:
    """Return one zoom of the run that a person means.

    Raises:
        LedgerError: no run answers to this text, or it has no time between start and end.
    """
    run_id = find_run(session, text)
    all_of_it = known_span(session, run_id, timezone)
    start, end = _span(all_of_it, asked, run_id)
    ranked = asked.ranks if asked.ranks in _BY_KEY else "sm"
    points = asked.pixels // _PIXELS_A_POINT
    lanes, ranks = read_signals(session, known, run_id, (start, end), points, ranked)
    told = timeline(session, run_id, asked.pixels // _PIXELS_A_BAR, (start - BUCKET_US + 1, end))
    ribbon = ribbon_of(told)
    events = [*_restarts(session, run_id, start, end), *_host_events(session, run_id, start, end)]
    marks = [*events, *_checkpoints(session, run_id, start, end), *stalls(ribbon), *losses(ribbon)][:_MARKS_SHOWN]
    return RunTimeline(run_id, timezone, asked.pixels, *all_of_it, start, end, ribbon, lanes, ranks, marks)


def known_span(session: Session, run_id: str, timezone: str) -> tuple[int, int]:
    """Return from when until when the ledger knows a run: its hours, cut at its own start and end."""
    span, facts = run_span(session, run_id, timezone), run_facts(session, run_id)
    return max(span.start, facts.started_at or span.start), min(span.end, facts.ended_at or span.end)


def _span(known: tuple[int, int], asked: TimelineAsked, run_id: str) -> tuple[int, int]:
    start = known[0] if asked.start is None else max(known[0], asked.start)
    end = known[1] if asked.end is None else min(known[1], asked.end)
    if end - start < SECOND_US:
        raise LedgerError(f"{run_id} has no second between start and end: it is known from {iso(known[0])}")
    return start, end


def state_shares(
    points: Sequence[TimelinePoint], whole: int = 1
) -> tuple[list[int], list[tuple[Class, str, list[float]]]]:
    """Return when each stretch begins, and of each state its share of each stretch, of which all are `whole`.

    States are in the order of their classes, within a class the largest first.
    """
    stretches = [(at, list(own)) for at, own in groupby(points, key=lambda point: point.bucket_start)]
    shares: dict[tuple[Class, str], list[float]] = defaultdict(lambda: [0.0] * len(stretches))
    for place, (_, own) in enumerate(stretches):
        total = sum(point.milliseconds for point in own) or 1
        for point in own:
            state = booking(point.state, point.cause)
            shares[state.klass, state.label][place] += whole * point.milliseconds / total
    states = sorted(shares, key=lambda state: (CLASSES.index(state[0]), -sum(shares[state]), state[1]))
    return [at for at, _ in stretches], [(*state, shares[state]) for state in states]


def ribbon_of(points: Sequence[TimelinePoint]) -> Ribbon:
    """Return the shares of each stretch as bands, to be stacked."""
    starts, states = state_shares(points)
    step = min((later - at for at, later in pairwise(starts)), default=BUCKET_US)
    bands = [Band(label, klass, [round(share, 4) for share in shares]) for klass, label, shares in states]
    return Ribbon(step, starts, bands)


def stalls(ribbon: Ribbon) -> list[Mark]:
    """Return the stretches in which next to nothing worked, and what it was instead; not starts and checkpoints."""
    found: list[Mark] = []
    for place, at in enumerate(ribbon.starts):
        told = {band.label: band.shares[place] for band in ribbon.bands}
        useful = sum(band.shares[place] for band in ribbon.bands if band.klass == "useful")
        most = max(told, key=lambda label: told[label], default="")
        if useful * 1000 >= _WORKED_PERMILLE or most in _NOT_A_STALL:
            continue
        if found and found[-1].end == at and found[-1].text == most:
            found[-1] = Mark("stall", found[-1].start, at + ribbon.step, most)
        else:
            found.append(Mark("stall", at, at + ribbon.step, most))
    return found


def losses(ribbon: Ribbon) -> list[Mark]:
    """Return the stretches in which the largest loss was at least half of its worst; stalls are told apart."""
    bands = [band for band in ribbon.bands if band.klass == "avoidable"]
    if not bands:
        return []
    worst = max(bands, key=lambda band: sum(band.shares))
    least = max(_LOSS_LEAST, max(worst.shares) / 2)
    stalled = {at for mark in stalls(ribbon) for at in range(mark.start, mark.end, ribbon.step)}
    found: list[Mark] = []
    for at, share in zip(ribbon.starts, worst.shares, strict=True):
        if share < least or at in stalled:
            continue
        if found and found[-1].end == at:
            found[-1] = Mark("loss", found[-1].start, at + ribbon.step, worst.label)
        else:
            found.append(Mark("loss", at, at + ribbon.step, worst.label))
    is_everywhere = bool(found) and found[0].end - found[0].start >= len(ribbon.starts) * ribbon.step
    return [] if is_everywhere else found  # a mark over all of it points at nothing


def _restarts(session: Session, run_id: str, start: int, end: int) -> list[Mark]:
    """Return when each attempt after the first began."""
    rows = session.rows(
        "SELECT attempt, min(started_at) AS began FROM allocations WHERE run_id = ? AND started_at IS NOT NULL "
        "GROUP BY attempt ORDER BY began",
        [run_id],
    )
    return [Mark("event", at, at, "restarted") for _, at in rows[1:] if start <= at < end]


def _host_events(session: Session, run_id: str, start: int, end: int) -> list[Mark]:
    """Return what the scheduler said of the run's hosts while they were not up; rows of one state are one event."""
    rows = session.rows_if_there(
        """
        SELECT node, state, coalesce(reason, ''), started_at, ended_at FROM node_states
        WHERE state <> 'up' AND started_at < $end AND ended_at > $start
            AND node IN (SELECT node FROM allocations WHERE run_id = $run)
        ORDER BY node, started_at LIMIT $most
        """,
        {"run": run_id, "start": start, "end": end, "most": _EVENTS_READ},
    )
    found: list[tuple[int, int, str]] = []
    for node, state, reason, began, ended in rows or ():
        words = f"{plain(node)} {plain(state)}{f': {plain(reason)}' if reason else ''}"
        if found and found[-1][2] == words and began - found[-1][1] <= _EVENT_GAP_US:
            found[-1] = (found[-1][0], ended, words)
        else:
            found.append((max(began, start), ended, words))
    return [Mark("event", first, last, words) for first, last, words in found[:_EVENTS_SHOWN]]


def _checkpoints(session: Session, run_id: str, start: int, end: int) -> list[Mark]:
    rows = session.rows(
        "SELECT minute, written_bytes FROM checkpoints WHERE run_id = ? AND minute >= ? AND minute < ? ORDER BY minute",
        [run_id, start - MINUTE_US, end],
    )
    found: list[tuple[int, int, int]] = []
    for minute, written in rows:
        if found and found[-1][1] == minute:
            found[-1] = (found[-1][0], minute + MINUTE_US, found[-1][2] + written)
        else:
            found.append((minute, minute + MINUTE_US, written))
    return [Mark("checkpoint", first, last, f"checkpoint, {size / 1e9:.1f} GB") for first, last, size in found]


def as_json(zoom: RunTimeline) -> str:
    """Return its figure as the page's script draws it."""
    return json.dumps(run_lanes(zoom), separators=(",", ":"), allow_nan=False)


def as_csv(zoom: RunTimeline) -> str:
    """Return the numbers of what is shown: a row a point of the signals, with the states of the stretch it lies in."""
    named = [f"{lane.title} {how} ({lane.unit})" for lane in zoom.lanes for how in ("mean", "least", "most")]
    head = ["from", *(band.label for band in zoom.ribbon.bands), *named]
    if not zoom.lanes:
        starts = enumerate(zoom.ribbon.starts)
        return csv_text(head, ([iso(at), *(band.shares[n] for band in zoom.ribbon.bands)] for n, at in starts))
    rows = []
    step = max(lane.step for lane in zoom.lanes)
    for at in range(min(lane.start for lane in zoom.lanes), zoom.end, step):
        within = [n for n, start in enumerate(zoom.ribbon.starts) if start <= at < start + zoom.ribbon.step]
        states = [band.shares[within[0]] if within else None for band in zoom.ribbon.bands]
        rows.append([iso(at), *states, *(value for lane in zoom.lanes for value in _at(lane, at))])
    return csv_text(head, rows)


def _at(lane: Lane, at: int) -> list[float | None]:
    place = (at - lane.start) // lane.step
    if not 0 <= place < len(lane.mean):
        return [None, None, None]
    return [lane.mean[place], lane.least[place], lane.most[place]]
