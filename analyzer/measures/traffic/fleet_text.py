"""The traffic of a fleet or a team as text: how far bytes went, by team, and which runs to look at."""

from analyzer.measures.traffic.fleet import FarRun, FleetTraffic, TeamTraffic
from analyzer.measures.traffic.locality import LOCALITIES, Locality
from analyzer.measures.traffic.text import LABELS, bill_words
from analyzer.text.layout import TextLayout
from analyzer.text.words import bytes_words, counted, gpu_hours, money, percent, plain

_FAR_SHOWN = 5
COLUMNS: tuple[tuple[str, tuple[Locality, ...]], ...] = (
    ("GPU links", ("gpu_link",)),
    ("in a rack", ("rack",)),
    ("across racks", ("across_racks",)),
    ("further", LOCALITIES[3:8]),
    ("unknown", ("unknown",)),
)
_NAME, _CELL, _LABEL, _AMOUNT = 18, 13, 22, 12


def fleet_traffic_text(report: FleetTraffic, layout: TextLayout, top: int | None = None) -> str:
    """Return the text."""
    kind = "week" if "-W" in report.period.label else "period"
    of = plain(report.team) if report.team else "all runs"
    found = [f"traffic of {of}, {kind} {report.period.label}: {counted(report.runs, 'run')}", ""]
    if not report.classes:
        found += layout.wrap("Nothing was told of what they moved: no flows, no RDMA ports with ranks, no NVLink.")
    else:
        found += [*_moved(report), "", *_teams(report, layout), *_far(report, layout, top or _FAR_SHOWN)]
    found += _sure(report, layout)
    found += [line for gap in report.gaps for line in layout.wrap(gap.words(report.period.timezone))]
    following = f"{report.far[0].run_id.rpartition('/')[2]} --traffic" if report.far else "last --traffic"
    return layout.page([*found, f"next: gpuledger report run {plain(following)}"])


def _moved(report: FleetTraffic) -> list[str]:
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
    found = [f"{'BY TEAM':<{_NAME + 2}}" + "".join(f"{name:>{_CELL}}" for name, _ in shown)]
    for team in report.teams:
        cells = [bytes_words(amount) if (amount := _sum(team, kinds)) else "" for _, kinds in shown]
        found.append(
            f"  {layout.cut(team.team or 'unmapped', _NAME - 1):<{_NAME}}" + "".join(f"{c:>{_CELL}}" for c in cells)
        )
    return [*found, ""]


def _sum(team: TeamTraffic, kinds: tuple[Locality, ...]) -> int:
    return sum(one.bytes for one in team.classes if one.locality in kinds)


def _far(report: FleetTraffic, layout: TextLayout, top: int) -> list[str]:
    if not report.far:
        return ["  No run is known to have moved anything beyond a rack.", ""]
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
        words.append(f"across racks {bytes_words(run.ordered_bytes)} would do if its ranks were ordered")
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
