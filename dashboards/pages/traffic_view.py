"""The traffic between racks as a matrix, each cell as dark as it is large; the runs that moved most beyond one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.measures.traffic.fleet import FleetTraffic, fleet_traffic, runs_of
from analyzer.measures.traffic.locality import ClassBytes
from analyzer.measures.traffic.rack_matrix import ELSEWHERE, RackCell, RackMatrix, rack_matrix
from analyzer.measures.traffic.tariff import tariff_book
from analyzer.measures.traffic.text import LABELS
from analyzer.measures.traffic.traffic_query import read_places, read_traffic
from analyzer.period import Period
from analyzer.text.words import bytes_words, counted, gpu_hours, money, percent, plain
from dashboards.pages.read_pages import Sheet

if TYPE_CHECKING:
    from analyzer.interfaces.api.request_service import RequestContext

_RACKS_SHOWN = 16
_RUNS_SHOWN = 12
_LEVELS = 6  # shades of a cell, from none to the largest


@dataclass(frozen=True, slots=True)
class Cell:
    """Bytes from one rack to another as they are printed. `is_within`: it stays in the rack."""

    amount: str
    told: str
    level: int
    is_within: bool


@dataclass(frozen=True, slots=True)
class RackTraffic:
    """What one rack sent, to each in turn and together."""

    rack: str
    cells: tuple[Cell, ...]
    together: str


@dataclass(frozen=True, slots=True)
class FarLine:
    """One run that moved bytes beyond a rack."""

    run_id: str
    name: str
    team: str
    far: str
    ordered: str
    waited: str


@dataclass(frozen=True, slots=True)
class Traffic:
    """The matrix, how far bytes went by class, and the runs to look at; `sentence` answers first."""

    sentence: str
    racks: tuple[str, ...]
    rows: tuple[RackTraffic, ...]
    columns: tuple[str, ...]  # what each was sent, together
    together: str
    classes: tuple[tuple[str, str, str], ...]
    far: tuple[FarLine, ...]
    more_far: int


def traffic_view(context: "RequestContext", period: Period) -> Traffic:
    """Return the traffic of the runs that may be seen."""
    fleet, matrix = _read(context, period)
    largest = max((cell.bytes for cell in matrix.cells.values()), default=0)
    rows = tuple(_row(rack, matrix, largest) for rack in matrix.racks)
    columns = tuple(_sum(matrix, to=rack) for rack in matrix.racks)
    return Traffic(
        _sentence(fleet, matrix),
        matrix.racks,
        rows,
        columns,
        bytes_words(matrix.bytes),
        tuple(_class(one) for one in fleet.classes),
        tuple(_far(fleet, place) for place in range(min(_RUNS_SHOWN, len(fleet.far)))),
        max(0, len(fleet.far) - _RUNS_SHOWN),
    )


def traffic_sheet(context: "RequestContext", period: Period) -> Sheet:
    """Return the matrix, exact."""
    _, matrix = _read(context, period, most=None)
    cells = sorted(matrix.cells.items())
    rows = [(here, there, cell.bytes, cell.estimated_bytes) for (here, there), cell in cells]
    return Sheet(("from", "to", "bytes", "estimated_bytes"), rows)


def _read(
    context: "RequestContext", period: Period, most: int | None = _RACKS_SHOWN
) -> tuple[FleetTraffic, RackMatrix]:
    """Return what runs moved; samples name no team, so which runs may be seen is known before they are read."""
    whose = runs_of(context.session, period)

    def made() -> tuple[FleetTraffic, RackMatrix]:
        tariffs = tariff_book(context.whole.settings)
        found = read_traffic(context.whole.session, list(whose), period.start, period.end, tariffs)
        matrix = rack_matrix(found.values(), read_places(context.whole.session, period.end), most)
        return fleet_traffic(period, context.currency, None, found, whose), matrix

    key = ("racks' traffic", context.generation, context.scope, period.start, period.end, most)
    return context.kept.get(key, made)


def _row(rack: str, matrix: RackMatrix, largest: int) -> RackTraffic:
    cells = tuple(_cell(rack, there, matrix.cells, largest) for there in matrix.racks)
    return RackTraffic(plain(rack), cells, _sum(matrix, from_=rack))


def _cell(here: str, there: str, cells: Mapping[tuple[str, str], RackCell], largest: int) -> Cell:
    cell = cells.get((here, there), RackCell())
    level = 0 if not cell.bytes else 1 + (_LEVELS - 1) * cell.bytes // (largest or 1)
    estimated = f", {percent(cell.estimated_bytes, cell.bytes)} of it estimated" if cell.estimated_bytes else ""
    amount = bytes_words(cell.bytes) if cell.bytes else ""
    told = f"{plain(here)} to {plain(there)}: {amount or 'nothing'}{estimated}"
    return Cell(amount, told, min(level, _LEVELS), here == there != ELSEWHERE)


def _sum(matrix: RackMatrix, from_: str | None = None, to: str | None = None) -> str:
    ends = ((from_, 0), (to, 1))
    chosen = [cell.bytes for pair, cell in matrix.cells.items() if all(name in (None, pair[at]) for name, at in ends)]
    return bytes_words(sum(chosen)) if sum(chosen) else ""


def _class(one: ClassBytes) -> tuple[str, str, str]:
    estimated = percent(one.estimated_bytes, one.bytes) if one.estimated_bytes else ""
    return LABELS[one.locality], bytes_words(one.bytes), estimated


def _far(fleet: FleetTraffic, place: int) -> FarLine:
    run = fleet.far[place]
    waited = ""
    if run.waited is not None:
        paid = f", {money(run.waited.cost_micros, fleet.currency)}" if run.waited.cost_micros is not None else ""
        waited = f"{gpu_hours(run.waited.milliseconds)} GPU-hours{paid}"
    ordered = "" if run.ordered_bytes is None else bytes_words(run.ordered_bytes)
    name = plain(run.name or run.run_id.rpartition("/")[2])
    return FarLine(run.run_id, name, plain(run.team or "unmapped"), bytes_words(run.far_bytes), ordered, waited)


def _sentence(fleet: FleetTraffic, matrix: RackMatrix) -> str:
    if not fleet.classes:
        return "Nothing was told of what runs moved: no flows, no RDMA ports with ranks, no NVLink."
    across = sum(cell.bytes for (here, there), cell in matrix.cells.items() if here != there)
    if not matrix.bytes:
        return f"{counted(fleet.runs, 'run')} moved nothing between hosts that is known."
    told = f"{percent(across, matrix.bytes)} of what {counted(fleet.runs, 'run')} moved between hosts left its rack"
    if fleet.waited is None or not fleet.waited.milliseconds:
        return f"{told}: {bytes_words(across)}. No GPU is known to have waited for it."
    cost = money(fleet.waited.cost_micros, fleet.currency, 0) if fleet.waited.cost_micros is not None else ""
    hours = f"{gpu_hours(fleet.waited.milliseconds)} GPU-hours"
    return f"{told}: {bytes_words(across)}. GPUs waited {hours} for it{f', {cost}' if cost else ''}."
