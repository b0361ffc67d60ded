"""The list of runs on a terminal: a line a run, what it cost and what it lost most to."""

from analyzer.reports.run import RunList, RunSummary
from analyzer.text.layout import TextLayout
from analyzer.text.words import UNKNOWN, amount, at_least, counted, gpu_hours, percent, symbol

RUNS_SHOWN = 20
_NAME = 27  # characters of a run's id and name on 80 columns


def runs_text(report: RunList, layout: TextLayout, top: int | None) -> str:
    """Return the first runs of the list, at most `top`."""
    shown = report.runs[: top or RUNS_SHOWN]
    if not shown:
        return layout.page([f"{report.period.label}: no run held a GPU"])
    sign = symbol(report.currency).strip()
    width = _NAME + layout.extra
    lines = [
        f"{'RUN':<{width}}{'TEAM':<12}{'GPU-hours':>10}{f'cost {sign}':>11}{'useful':>8}{f'avoidable {sign}':>12}",
        *(line for run in shown for line in _lines(run, width, layout)),
        "",
        f"{len(shown)} of {counted(len(report.runs), 'run')}; next: gpuledger report run {_short(shown[0])}",
    ]
    return layout.page(lines)


def _lines(run: RunSummary, width: int, layout: TextLayout) -> list[str]:
    whole, avoidable, measured = run.breakdown, run.breakdown.of("avoidable"), run.breakdown.measured
    name = layout.cut(f"{_short(run)} {run.name}" if run.name != _short(run) else run.name, width - 1)
    team = layout.cut(run.team or "unmapped", 11)
    useful = percent(whole.of("useful").milliseconds, measured.milliseconds) if measured.milliseconds else UNKNOWN
    lost = _money(avoidable.cost_micros, is_part=avoidable.is_part) if measured.milliseconds else UNKNOWN
    head = (
        f"{name:<{width}}{team:<12}{gpu_hours(whole.milliseconds):>10}"
        f"{_money(whole.cost_micros, is_part=whole.is_part):>11}{useful:>8}{lost:>12}"
    )
    loss = run.main_loss
    size = f"{run.gpus} {run.sku or 'GPUs of several kinds'}" if run.gpus else "size not known"
    reason = f"most of it {loss.label}" if loss else "nothing avoidable" if measured.milliseconds else "not measured"
    return [head, *layout.wrap(f"{size}; {reason}", "    ")]


def _money(micros: int | None, *, is_part: bool) -> str:
    return UNKNOWN if micros is None else at_least(amount(micros, 2), is_part)


def _short(run: RunSummary) -> str:
    return run.run_id.rsplit("/", 1)[-1]
