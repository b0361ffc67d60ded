"""Read what the fleet does now: states and prices from the ledger's newest hour, figures from the last samples."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from analyzer.errors import LedgerError
from analyzer.ledger.coverage import ledger_end
from analyzer.period import local
from analyzer.queries.ledger_query import Breakdown, Counted, Unpriced, fold
from analyzer.queries.statements import statements
from analyzer.states import booking, words_of
from collector.store.session import Session

_STRETCHES = 6  # of ten minutes each: the last hour of a run


@dataclass(frozen=True, slots=True)
class DriverFigures:
    """What the driver said in the last minutes, over all GPUs of a line. None: no GPU of it reported this."""

    busy_ratio: float | None  # SM activity where it is measured, else NVML's utilization
    memory_used_bytes: int | None
    memory_bytes: int | None  # of those GPUs whose use is known
    power_watts: float | None  # of a GPU, the mean
    temperature_celsius: float | None  # of the hottest

    @property
    def memory_ratio(self) -> float | None:
        """How full their memory is, from 0 to 1."""
        if self.memory_used_bytes is None or not self.memory_bytes:
            return None
        return self.memory_used_bytes / self.memory_bytes


@dataclass(frozen=True, slots=True)
class LiveLine:
    """One line of the screen: a run, a label of what no run holds, or one holder of one GPU of a host."""

    name: str
    run_id: str | None  # None: held by no run
    team: str | None
    gpus: int
    index: int | None  # of one GPU: its number on its host
    sku: str | None
    breakdown: Breakdown
    figures: DriverFigures
    trend: tuple[float | None, ...]  # useful share of the last stretches, oldest first; None where it held nothing


@dataclass(frozen=True, slots=True)
class LiveView:
    """The newest hour of the ledger, or as much of it as is booked. Times are microseconds UTC."""

    currency: str
    timezone: str
    node: str | None  # None: the whole fleet
    start: int
    end: int  # up to when the ledger knows
    gpus: int
    breakdown: Breakdown
    lines: tuple[LiveLine, ...]

    @property
    def window_ms(self) -> int:
        """How much of the hour is booked."""
        return (self.end - self.start) // 1000

    def cost(self, of: Breakdown) -> int | None:
        """Return what this cost in the window, in millionths; None where a part has no price."""
        return None if of.unpriced else of.cost_micros or 0


_STRETCH_US = 600_000_000
_FIGURES_US = 300_000_000  # what "now" means for the driver's figures
_LEAST_MS = 600_000  # an hour that has just begun says little: the one before is shown until then
_Row = tuple[Any, ...]  # gpu, sku, run, state, cause, milliseconds, cost, unpriced milliseconds


def read_live_view(session: Session, currency: str, timezone: str, node: str | None = None) -> LiveView:
    """Return the newest hour that the ledger can tell of, of the fleet or of one host.

    Raises:
        LedgerError: the ledger is empty, or has no such host.
    """
    ledger_end(session)
    newest, held, measured, known, named, stretches = statements("interfaces/live/look.sql")
    hour, booked_ms, end = _window(session.rows(newest))
    start = end - booked_ms * 1000  # its beginning, or when its first GPU was first seen
    rows = session.rows(held, {"hour": hour, "node": node})
    if node is not None and not rows:
        raise LedgerError(
            f"the ledger has no host {node!r} {local(start, timezone):%H:%M} to {local(end, timezone):%H:%M}"
        )
    figures = {
        gpu: values for gpu, *values in session.rows(measured, {"since": end - _FIGURES_US, "until": end, "node": node})
    }
    gpus = {gpu: (index, memory) for gpu, index, memory in session.rows(known, {"node": node})}
    runs = sorted({row[2] for row in rows if row[2] is not None})
    names = {run: (name or run, team) for run, name, team in session.rows(named, {"runs": runs})}
    asked = {"since": end - _STRETCHES * _STRETCH_US, "until": end, "runs": runs, "useful": words_of("useful")}
    trends = _trends(session.rows(stretches, asked), end)
    lines = [
        _line(key, of, names, gpus, figures, trends) for key, of in _grouped(rows, by_gpu=node is not None).items()
    ]
    return LiveView(currency, timezone, node, start, end, len({row[0] for row in rows}), _breakdown(rows), tuple(lines))


def booked_until(session: Session) -> int:
    """Return up to when the newest hour is booked, in microseconds UTC.

    Raises:
        LedgerError: the ledger is empty.
    """
    ledger_end(session)
    (_, _, end), *_ = session.rows(statements("interfaces/live/look.sql")[0])
    return int(end)


def _window(hours: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
    newest, *before = hours
    return before[0] if newest[1] < _LEAST_MS and before else newest


_Key = tuple[str | None, str | None, str | None]  # the GPU of a host's line, the run, the label where no run holds it


def _grouped(rows: Sequence[_Row], *, by_gpu: bool) -> dict[_Key, list[_Row]]:
    found: dict[_Key, list[_Row]] = defaultdict(list)
    for row in rows:
        label = None if row[2] is not None else booking(row[3], row[4]).label
        found[row[0] if by_gpu else None, row[2], label].append(row)
    return found


def _line(
    key: _Key,
    rows: Sequence[_Row],
    names: Mapping[str, tuple[str, str | None]],
    known: Mapping[str, tuple[int | None, int | None]],
    measured: Mapping[str, Sequence[Any]],
    trends: Mapping[str, tuple[float | None, ...]],
) -> LiveLine:
    gpu, run, label = key
    held = sorted({row[0] for row in rows})
    name, team = names.get(run, (run, None)) if run is not None else (label or "", None)
    skus = {row[1] for row in rows}
    return LiveLine(
        name,
        run,
        team,
        len(held),
        known.get(gpu, (None, None))[0] if gpu else None,
        skus.pop() if len(skus) == 1 else None,
        _breakdown(rows),
        _figures([(known.get(each, (None, None))[1], measured[each]) for each in held if each in measured]),
        trends.get(run, ()) if run else (),
    )


def _breakdown(rows: Sequence[_Row]) -> Breakdown:
    counted: list[Counted] = [(state, cause, ms, cost) for _, _, _, state, cause, ms, cost, _ in rows]
    unpriced: dict[str | None, int] = defaultdict(int)
    for _, sku, *_, without in rows:
        unpriced[sku] += without
    return Breakdown(fold(counted), tuple(Unpriced(sku, ms) for sku, ms in unpriced.items() if ms))


def _figures(of: Sequence[tuple[int | None, Sequence[Any]]]) -> DriverFigures:
    busy = [said[0] for _, said in of if said[0] is not None]
    memory = [(whole, said[1]) for whole, said in of if whole and said[1] is not None]
    power = [said[2] for _, said in of if said[2] is not None]
    heat = [said[3] for _, said in of if said[3] is not None]
    return DriverFigures(
        fmean(busy) if busy else None,
        sum(used for _, used in memory) if memory else None,
        sum(whole for whole, _ in memory) if memory else None,
        fmean(power) if power else None,
        max(heat) if heat else None,
    )


def _trends(rows: Sequence[tuple[str, int, int, int]], end: int) -> dict[str, tuple[float | None, ...]]:
    first = end // _STRETCH_US - _STRETCHES + (1 if end % _STRETCH_US else 0)
    found: dict[str, list[float | None]] = defaultdict(lambda: [None] * _STRETCHES)
    for run, start, useful, whole in rows:
        place = start // _STRETCH_US - first
        if 0 <= place < _STRETCHES and whole:
            found[run][place] = useful / whole
    return {run: tuple(shares) for run, shares in found.items()}
