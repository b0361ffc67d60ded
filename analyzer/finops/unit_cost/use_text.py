"""How well teams used what they held, and how what trained scaled, as the tables of unit economics."""

from agent.wire.units import MICROS, PERMILLE
from analyzer.finops.unit_cost.compute import Compute
from analyzer.finops.unit_cost.figures import digits, short
from analyzer.finops.unit_cost.report import UnitReport
from analyzer.finops.unit_cost.scaled import Scaled, ScalingReport
from analyzer.text.layout import TextLayout
from analyzer.text.words import UNKNOWN, counted, gpu_hours, percent, symbol

_WHOLE_LEAST = 100  # a second: smaller rates are told with decimals
_NOTE = (
    "useful: of the GPU time that was measured, where report week tells shares of the money; active: of its SMs, where "
    "that is read, else with any kernel"
)


def compute_lines(report: UnitReport, layout: TextLayout, rows: int) -> list[str]:
    """Return a line a team: what it held, what share of it was useful, and what a useful hour cost."""
    if not report.compute:
        return []
    width = 24 + layout.extra
    price = f"{symbol(report.currency).strip()} a useful h"
    head = f"{'COMPUTE BY TEAM':<{width}}{'GPU-hours':>12}{'useful':>9}{'before':>9}{'active':>9}{price:>15}"
    found = [head, *(_compute_row(one, layout, width) for one in report.compute[:rows])]
    more = len(report.compute) - rows
    found += [f"  and {more} more: --top {len(report.compute)}"] if more > 0 else []
    return [*found, *layout.wrap(_NOTE)]


def _compute_row(one: Compute, layout: TextLayout, width: int) -> str:
    shares = [one.useful_permille, one.useful_permille_before, one.activity_permille]
    told = "".join(f"{UNKNOWN if share is None else percent(share, PERMILLE):>9}" for share in shares)
    price = one.micros_a_useful_hour
    cost = UNKNOWN if price is None else f"{price / MICROS:,.2f}"
    name = layout.cut(one.team or "unmapped", width - 3)
    return f"  {name:<{width - 2}}{gpu_hours(one.milliseconds):>12}{told}{cost:>15}"


def scaling_lines(report: ScalingReport | None, layout: TextLayout, rows: int) -> list[str]:
    """Return the sizes of each model that was seen at several, the worst first."""
    if report is None or not (report.scaled or report.unsized):
        return []
    width = 23 + layout.extra
    rate = "a second"
    found = [f"{'SCALING':<{width}}{'GPUs':>8}{'runs':>8}{rate:>16}{'speed-up':>11}{'efficiency':>12}"]
    for one in report.scaled[:rows]:
        found += _sizes(one, layout, width)
    if not report.scaled:
        found = [found[0][:width].rstrip()]
    more = len(report.scaled) - rows
    found += [f"  and {more} more: --top {len(report.scaled)}"] if more > 0 else []
    if report.unsized:
        found += layout.wrap(f"{counted(report.unsized, 'model')}: one size only, or sizes that cannot be compared.")
    return found


def _sizes(one: Scaled, layout: TextLayout, width: int) -> list[str]:
    found = []
    for place, size in enumerate(one.scaling.sizes):
        name = "" if place else layout.cut(one.model, width - 3)
        each = size.per_second
        rate = f"{digits(each) if each < _WHOLE_LEAST else short(round(each))} {one.scaling.unit}"
        share = percent(round(PERMILLE * size.efficiency), PERMILLE)
        found.append(f"  {name:<{width - 2}}{size.gpus:>8}{size.runs:>8}{rate:>16}{size.speed_up:>11.2f}{share:>12}")
    return found
