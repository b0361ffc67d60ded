"""A run over time, as fine as a screen can show: the ledger's states, the signals under them, ranks, and marks."""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal

from agent.wire.units import MINUTE_US, SECOND_US
from analyzer.charts.lanes import Band, Lane, Mark, Ribbon, RunTimeline, run_lanes
from analyzer.errors import LedgerError
from analyzer.ledger.timeline import TimelinePoint, timeline
from analyzer.ledger.which_run import find_run
from analyzer.period import WINDOW_MS
from analyzer.reports.document import iso
from analyzer.reports.run import run_facts, run_span
from analyzer.states import CLASSES, Class, booking
from collector.store.session import Session
from dashboards.pages.run_signals import BY_KEY, Remembered, read_signals

BUCKET_US = WINDOW_MS * 1000  # how finely the ledger keeps a run's states
_WIDTHS = (160, 2000)
_PIXELS_A_POINT, _PIXELS_A_BAR = 2, 3
_MARKS_SHOWN = 400
_WORKED_PERMILLE = 50  # a stretch in which less of the GPUs' time than this was work is a stall
_NOT_A_STALL = ("starting", "checkpointing")


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
    ranked = asked.ranks if asked.ranks in BY_KEY else "sm"
    points = asked.pixels // _PIXELS_A_POINT
    lanes, ranks = read_signals(session, known, run_id, (start, end), points, ranked)
    told = timeline(session, run_id, asked.pixels // _PIXELS_A_BAR, (start - BUCKET_US + 1, end))
    ribbon = ribbon_of(told)
    marks = [*_checkpoints(session, run_id, start, end), *stalls(ribbon)][:_MARKS_SHOWN]
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


def ribbon_of(told: Sequence[TimelinePoint]) -> Ribbon:
    """Return the shares of each stretch, stacked in the order of classes, within a class the largest first."""
    buckets = [(at, list(points)) for at, points in groupby(told, key=lambda point: point.bucket_start)]
    shares: dict[tuple[Class, str], list[float]] = defaultdict(lambda: [0.0] * len(buckets))
    for place, (_, points) in enumerate(buckets):
        total = sum(point.milliseconds for point in points) or 1
        for point in points:
            what = booking(point.state, point.cause)
            shares[what.klass, what.label][place] += point.milliseconds / total
    keys = sorted(shares, key=lambda key: (CLASSES.index(key[0]), -sum(shares[key]), key[1]))
    starts = [at for at, _ in buckets]
    step = min((later - at for at, later in pairwise(starts)), default=BUCKET_US)
    bands = [Band(label, klass, [round(share, 4) for share in shares[klass, label]]) for klass, label in keys]
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
    out = io.StringIO()
    writer = csv.writer(out)
    named = [f"{lane.title} {how} ({lane.unit})" for lane in zoom.lanes for how in ("mean", "least", "most")]
    writer.writerow(["from", *(band.label for band in zoom.ribbon.bands), *named])
    if not zoom.lanes:
        for place, at in enumerate(zoom.ribbon.starts):
            writer.writerow([iso(at), *(band.shares[place] for band in zoom.ribbon.bands)])
        return out.getvalue()
    step = max(lane.step for lane in zoom.lanes)
    for at in range(min(lane.start for lane in zoom.lanes), zoom.end, step):
        within = [n for n, start in enumerate(zoom.ribbon.starts) if start <= at < start + zoom.ribbon.step]
        states = [band.shares[within[0]] if within else None for band in zoom.ribbon.bands]
        writer.writerow([iso(at), *states, *(value for lane in zoom.lanes for value in _at(lane, at))])
    return out.getvalue()


def _at(lane: Lane, at: int) -> list[float | None]:
    place = (at - lane.start) // lane.step
    if not 0 <= place < len(lane.mean):
        return [None, None, None]
    return [lane.mean[place], lane.least[place], lane.most[place]]
