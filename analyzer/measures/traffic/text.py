"""The traffic of a run as text: a few lines in its report, and the whole matrix where that was asked for."""

from collections.abc import Sequence

from analyzer.measures.traffic.fold import NO_FLOW, OTHERS, Table, fold
from analyzer.measures.traffic.locality import Locality
from analyzer.measures.traffic.run_traffic import RunTraffic
from analyzer.measures.traffic.tariff import Bill
from analyzer.text.layout import TextLayout
from analyzer.text.words import bytes_words, counted, gpu_hours, hours_decimals, money, percent, plain

LABELS: dict[Locality, str] = {
    "gpu_link": "GPU links",
    "rack": "inside a rack",
    "across_racks": "across racks",
    "across_blocks": "across blocks",
    "across_zones": "across zones",
    "across_regions": "across regions",
    "outside": "no host of the fleet",
    "internet": "internet",
    "unknown": "how far is unknown",
}
_COLUMN = 18
_CELL = 8
_NAME = 12
_DOUBTS_SHOWN = 2


def traffic_lines(traffic: RunTraffic | None, currency: str, layout: TextLayout, *, whole: bool = False) -> list[str]:
    """Return the section of a run's report: nothing where nothing was told, or for a run of one host."""
    rows = traffic_rows(traffic, currency)
    if traffic is None or not rows:
        return []
    found = ["TRAFFIC", *(line for label, words in rows for line in layout.labelled(label, words, _COLUMN))]
    return [*found, *(["", *_matrix(traffic, layout)] if whole else [])]


def traffic_rows(traffic: RunTraffic | None, currency: str) -> list[tuple[str, str]]:
    """Return what is told of a run's traffic, by its name; nothing where nothing was told."""
    if traffic is None or not traffic.classes:  # what its links carried, and nobody explains, is no traffic of its own
        return []
    rows = (
        ("moved", _moved(traffic)),
        ("ring", _ring(traffic)),
        ("its zones", _zones(traffic)),
        ("price", _price(traffic, currency)),
        ("not attributed", _rest(traffic)),
    )
    return [(label, words) for label, words in rows if words]


def _moved(traffic: RunTraffic) -> str:
    parts = []
    for one in traffic.classes:
        estimated = " (estimated)" if one.estimated_bytes else ""
        parts.append(f"{LABELS[one.locality]} {bytes_words(one.bytes)}{estimated}")
    return ", ".join(parts)


def _ring(traffic: RunTraffic) -> str:
    if not traffic.rings:
        return "not told: the order of its ranks is unknown" if len(traffic.hosts) > 1 else ""
    racks = traffic.rings[0]
    if racks.crossings is None or racks.contiguous is None:
        return f"not told: {racks.missing}"
    if not racks.contiguous:
        return "all its hosts are in one rack"
    if racks.crossings == racks.contiguous:
        return f"{racks.crossings} of {racks.hosts} links cross racks, which is the least for {racks.places} racks"
    words = f"{racks.crossings} of {racks.hosts} links cross racks, {racks.contiguous} if ordered"
    if traffic.ordered is None:
        return words
    return f"{words}: {bytes_words(traffic.ordered.contiguous_bytes)}, not {bytes_words(traffic.ordered.now_bytes)}"


def _zones(traffic: RunTraffic) -> str:
    """Return how the ring crosses zones, where it must: that is what tariffs are for."""
    zones = next((one for one in traffic.rings if one.level == "zone" and one.contiguous), None)
    return f"{zones.crossings} of {zones.hosts} links cross zones, {zones.contiguous} if ordered" if zones else ""


def _price(traffic: RunTraffic, currency: str) -> str:
    parts = [bill_words(bill, currency) for bill in traffic.bills]
    if traffic.waited is not None:
        lost = traffic.waited.milliseconds
        hours = f"{gpu_hours(lost, hours_decimals(lost))} GPU-hours of waiting"
        cost = traffic.waited.cost_micros
        paid = f", {money(cost, currency)}" if cost is not None else ""
        parts.append(f"racks have no tariff: {hours}{paid}")
    return "; ".join(parts)


def bill_words(bill: Bill, currency: str) -> str:
    """Return what crossing one border costs, or why that is not known."""
    if bill.cost_micros is None:
        return f"{LABELS[bill.locality]} unpriced ({plain(bill.source)})"
    return f"{LABELS[bill.locality]} {money(bill.cost_micros, currency)} (tariff as of {bill.as_of})"


def _rest(traffic: RunTraffic) -> str:
    parts = []
    if traffic.link_bytes and traffic.unattributed_bytes is not None:
        parts.append(f"{percent(traffic.unattributed_bytes, traffic.link_bytes)} of the links' bytes")
    parts += map(plain, traffic.missing)
    doubts = [plain(doubt) for doubt in traffic.doubts[:_DOUBTS_SHOWN]]
    more = len(traffic.doubts) - len(doubts)
    return "; ".join([*parts, *doubts, *([f"{more} more such hosts"] if more > 0 else [])])


def _matrix(traffic: RunTraffic, layout: TextLayout) -> list[str]:
    table = fold(traffic, (layout.width - 2 - _NAME) // _CELL)
    found = [f"  {'from, to':<{_NAME - 2}}" + _row(table.columns)]
    for name, amounts in table.rows:
        cells = ["" if amount is None else bytes_words(amount) for amount in amounts]
        found.append(f"  {layout.cut(name, _NAME - 3):<{_NAME - 2}}" + _row(cells))
    return [*found, *layout.wrap(_legend(table))]


def _row(cells: Sequence[str]) -> str:
    return "".join(f"{plain(cell)[: _CELL - 1]:>{_CELL}}" for cell in cells).rstrip()


def _legend(table: Table) -> str:
    left_out = f" {counted(table.left_out, 'rack')} more: --json." if table.left_out else ""
    return (
        f"{OTHERS}: who is no host of this run. {NO_FLOW}: what the links carried and no flow explains. "
        f"RDMA bytes are estimated.{left_out}"
    )
