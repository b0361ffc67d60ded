"""Traffic as text: of one run, and of a fleet or a team."""

from collections.abc import Sequence

from analyzer.measures.traffic.fleet import FarRun, FleetTraffic, TeamTraffic
from analyzer.measures.traffic.matrix import LOCALITIES, Locality
from analyzer.measures.traffic.run_traffic import NO_FLOW, OTHERS, RunTraffic, Table, fold
from analyzer.measures.traffic.tariff import Bill
from analyzer.text.layout import TextLayout
from analyzer.text.words import bytes_words, counted, gpu_hours, hours_decimals, money, percent, plain

LABELS: dict[Locality, str] = {
    "gpu_link": "GPU links",
    "rack": "inside a rack",
    "across_racks": "cross-rack",
    "across_blocks": "cross-block",
    "across_zones": "cross-zone",
    "across_regions": "cross-region",
    "outside": "outside the fleet",
    "internet": "internet",
    "unknown": "distance unknown",
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
        return "not reported: the order of its ranks is unknown" if len(traffic.hosts) > 1 else ""
    racks = traffic.rings[0]
    if racks.crossings is None or racks.contiguous is None:
        return f"not reported: {racks.missing}"
    if not racks.contiguous:
        return "all its hosts are in one rack"
    if racks.crossings == racks.contiguous:
        return f"{racks.crossings} of {racks.hosts} links cross racks, the minimum for {racks.places} racks"
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
        f"{OTHERS}: hosts outside this run. {NO_FLOW}: link traffic that no flow explains. "
        f"RDMA bytes are estimated.{left_out}"
    )


_FAR_SHOWN = 5
COLUMNS: tuple[tuple[str, tuple[Locality, ...]], ...] = (
    ("GPU links", ("gpu_link",)),
    ("in a rack", ("rack",)),
    ("cross-rack", ("across_racks",)),
    ("further", LOCALITIES[3:8]),
    ("unknown", ("unknown",)),
)
_TEAM, _BYTES, _LABEL, _AMOUNT = 18, 13, 22, 12


def fleet_traffic_text(report: FleetTraffic, layout: TextLayout, top: int | None = None) -> str:
    """Return the text."""
    kind = "week" if "-W" in report.period.label else "period"
    of = plain(report.team) if report.team else "all runs"
    found = [f"traffic of {of}, {kind} {report.period.label}: {counted(report.runs, 'run')}", ""]
    if not report.classes:
        found += layout.wrap("No traffic was reported: no flows, no RDMA ports with ranks, no NVLink.")
    else:
        found += [*_fleet_moved(report), "", *_teams(report, layout), *_far(report, layout, top or _FAR_SHOWN)]
    found += _sure(report, layout)
    found += [line for gap in report.gaps for line in layout.wrap(gap.words(report.period.timezone))]
    following = f"{report.far[0].run_id.rpartition('/')[2]} --traffic" if report.far else "last --traffic"
    return layout.page([*found, f"next: gpuledger report run {plain(following)}"])


def _fleet_moved(report: FleetTraffic) -> list[str]:
    found = [f"{'MOVED':<{_LABEL + 2}}{'bytes':>{_AMOUNT}}{'estimated':>{_AMOUNT}}"]
    for one in report.classes:
        estimated = percent(one.estimated_bytes, one.bytes) if one.estimated_bytes else ""
        found.append(f"  {LABELS[one.locality]:<{_LABEL}}{bytes_words(one.bytes):>{_AMOUNT}}{estimated:>{_AMOUNT}}")
    return found


def _teams(report: FleetTraffic, layout: TextLayout) -> list[str]:
    """Return the teams and how far they moved what; columns of which nobody moved anything are left out."""
    if report.team is not None:
        return []
    shown = [column for column in COLUMNS if any(_sum(team, column[1]) for team in report.teams)]
    found = [f"{'BY TEAM':<{_TEAM + 2}}" + "".join(f"{name:>{_BYTES}}" for name, _ in shown)]
    for team in report.teams:
        cells = [bytes_words(amount) if (amount := _sum(team, kinds)) else "" for _, kinds in shown]
        found.append(
            f"  {layout.cut(team.team or 'unmapped', _TEAM - 1):<{_TEAM}}" + "".join(f"{c:>{_BYTES}}" for c in cells)
        )
    return [*found, ""]


def _sum(team: TeamTraffic, kinds: tuple[Locality, ...]) -> int:
    return sum(one.bytes for one in team.classes if one.locality in kinds)


def _far(report: FleetTraffic, layout: TextLayout, top: int) -> list[str]:
    if not report.far:
        return ["  No run is known to have moved data beyond a rack.", ""]
    found = ["BEYOND A RACK"]
    for run in report.far[:top]:
        name = run.name or run.run_id.rpartition("/")[2]
        found += layout.labelled(layout.cut(name, 15), _far_words(run, report.currency), 18)
    if (more := len(report.far) - top) > 0:
        found.append(f"  {counted(more, 'run')} more: --top {len(report.far)}")
    return [*found, ""]


def _far_words(run: FarRun, currency: str) -> str:
    words = [f"{plain(run.team or 'unmapped')}, {bytes_words(run.far_bytes)}"]
    if run.ordered_bytes is not None:
        words.append(f"{bytes_words(run.ordered_bytes)} across racks would suffice if its ranks were ordered")
    if run.waited is not None:
        paid = f", {money(run.waited.cost_micros, currency)}" if run.waited.cost_micros is not None else ""
        words.append(f"cost {gpu_hours(run.waited.milliseconds)} GPU-hours of waiting{paid}")
    return "; ".join(words)


def _sure(report: FleetTraffic, layout: TextLayout) -> list[str]:
    found = [line for bill in report.bills for line in layout.labelled("price", bill_words(bill, report.currency), 18)]
    if report.link_bytes and report.unattributed_bytes is not None:
        share = percent(report.unattributed_bytes, report.link_bytes)
        found += layout.labelled("not attributed", f"{share} of what the links of their hosts carried", 18)
    return [*found, ""] if found else []
