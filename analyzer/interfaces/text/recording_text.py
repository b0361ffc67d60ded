"""The report on one command as text: time first, the limit, what to change, and what was not judged."""

from analyzer.interfaces.cli.recording import RecordingReport
from analyzer.interfaces.text.against_text import against_lines, against_sentence
from analyzer.interfaces.text.efficiency_text import step_words
from analyzer.interfaces.text.finding_text import evidence_lines
from analyzer.interfaces.text.host_text import host_lines, no_gpu_sentence
from analyzer.interfaces.text.pasting import folded
from analyzer.interfaces.text.run_prediction import came_out, predicted
from analyzer.interfaces.text.run_text import large, run_sentence, sparks
from analyzer.ledger.breakdown import BreakdownLine, breakdown_lines
from analyzer.prices.list_prices import range_of
from analyzer.queries.ledger_query import Breakdown
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.run import RunDocument
from analyzer.text.layout import TextLayout
from analyzer.text.words import (
    apportion_tree,
    bytes_words,
    clock,
    counted,
    duration,
    gpu_hours,
    money,
    nearest,
    plain,
    plain_sentence,
)

_TRY_SHOWN = 3
_SHARE_SECONDS = 10  # below this a share of a core says more about the start than about the watching
_NAME_WIDTH = 28


def recording_text(report: RecordingReport, layout: TextLayout, before: RecordingReport | None = None) -> str:
    """Return the report, compared with an earlier one where there is one."""
    sections = [_head(report, layout)]
    if before is not None:
        then = came_out(before, report)
        compared = [*against_lines(before, report), *(layout.wrap(then, "  ", "    ") if then else [])]
        sections += [layout.wrap(against_sentence(before, report)), compared]
    elif report.run is not None:
        sections += _of_run(report.run, report, layout)
    else:
        sections += [layout.wrap(no_gpu_sentence(report)), host_lines(report.host, layout)]
    sections += [_not_judged(report, layout), _foot(report)]
    return layout.page([line for section in sections if section for line in (*section, "")][:-1])


def _head(report: RecordingReport, layout: TextLayout) -> list[str]:
    took = duration(nearest(report.microseconds, 1_000_000))
    size = f"{took} on {counted(report.header.gpus, 'GPU')}" if report.header.gpus else f"{took} on this host"
    if report.run is not None:
        size += f" = {gpu_hours(report.run.breakdown.milliseconds, 2)} GPU-hours"
        cost = report.run.breakdown.cost_micros
        size += f", {money(cost, report.run.currency)}" if cost is not None else ""
    if report.ended is None:
        size += ", as far as it was watched"
    elif report.ended.exit_code != 0:
        size += f", exit code {report.ended.exit_code}"
    name = layout.cut(report.header.command, layout.width - 2)
    first = [name] if len(name) > _NAME_WIDTH else []
    return [*first, f"{'' if first else name:<{_NAME_WIDTH}} {size}", *_said(report.run)]


def _said(run: RunDocument | None) -> list[str]:
    told = [] if run is None else [(run.steps, "steps"), (run.tokens, "tokens")]
    counts = ", ".join(f"{large(count)} {what}" for count, what in told if count)
    return [f"{'':<{_NAME_WIDTH}} {counts} (said by the run)"] if counts else []


def _of_run(run: RunDocument, report: RecordingReport, layout: TextLayout) -> list[list[str]]:
    sections = [
        layout.wrap(run_sentence(run)),
        _time_table(run.breakdown, report.header.gpus, layout),
        sparks(run.timeline, layout, run.timezone),
    ]
    if run.findings:
        first = run.findings[0]
        sections.append([f"WHY{f'confidence {first.confidence}':>{layout.width - 5}}", *evidence_lines(first, layout)])
    sections.append(_try(run, report, layout))
    return sections


def _time_table(breakdown: Breakdown, gpus: int, layout: TextLayout) -> list[str]:
    """Return where the time went, as the mean of the GPUs: clock time, share and GPU-hours, each adding up."""
    table = breakdown_lines(breakdown, subtotals=False)
    clocks = [*_clocks(breakdown, gpus), clock(nearest(breakdown.milliseconds, 1000 * gpus))]
    label = max(20, *(len(line.label) + 1 for line in table))
    bar = max(0, min(12 + max(0, layout.extra), layout.width - 41 - label))
    title = f"WHERE THE TIME WENT (mean of the {gpus} GPUs)" if gpus > 1 else "WHERE THE TIME WENT"
    largest = max((line.share for line in table if line.level != "total"), default=0.0)
    found = [f"{title:<{13 + label + bar}}{'time':>9}{'%':>7}{'GPU-hours':>12}"]
    for line, time in zip(table, clocks, strict=True):
        drawn = "" if line.level == "total" else layout.bar(line.share, largest, bar)
        found.append(
            f"  {_first(line):<11}{line.label if line.level != 'total' else '':<{label}}{drawn:<{bar}}"
            f"{time:>9}{line.percent:>7}{line.hours:>12}"
        )
    return found


def _first(line: BreakdownLine) -> str:
    if line.level == "total":
        return "total"
    return line.klass or "" if line.level == "only" else ""


def _clocks(breakdown: Breakdown, gpus: int) -> list[str]:
    groups: dict[str, list[int]] = {}
    for entry in breakdown.entries:
        groups.setdefault(entry.klass, []).append(entry.milliseconds)
    total = nearest(breakdown.milliseconds, 1000 * gpus)
    _, members = apportion_tree(total, list(groups.values()), 1000 * gpus)
    return [clock(seconds) for group in members for seconds in group]


def _try(run: RunDocument, report: RecordingReport, layout: TextLayout) -> list[str]:
    found = []
    for number, advice in enumerate(run.recommendations[:_TRY_SHOWN], 1):
        found += layout.wrap(plain(advice.title), f"  {number}  ", "     ")
        found += [f"       {line}" for each in advice.artefacts for line in folded(each, layout.width - 7)]
        found += layout.wrap(_faster(advice, report), "     ", "     ")
    return ["TRY", *found] if found else []


def _faster(advice: Recommendation, report: RecordingReport) -> str:
    """Return "45:00 -> about 30:28 (P20 33:02, P80 28:45); costs nothing": the week's saving, scaled to this run."""
    price = f"cost of moving: {plain_sentence(advice.cost_to_move)}"
    return f"{clock(report.microseconds // 1_000_000)} -> about {predicted(advice, report).words}; {price}"


def _not_judged(report: RecordingReport, layout: TextLayout) -> list[str]:
    found = []
    run = report.run
    if run is None:
        found += layout.labelled("GPUs", plain(report.header.no_gpu) or "not read before the command ended", 15)
    elif run.breakdown.cost_micros is None:
        found += layout.labelled("cost", _price_words(run.facts.sku), 15)
    for rule in run.not_judged if run is not None else ():
        found += layout.labelled(rule.rule.replace("_", " ")[:12], plain(rule.missing), 15)
    if report.refused:
        lost = f"{counted(len(report.refused), 'batch')} could not be read: {plain(report.refused[0])}"
        found += layout.labelled("recording", lost, 15)
    rates = f"host every {report.header.host_seconds:g} s"
    if report.header.gpus:
        rates = f"GPUs every {report.header.gpu_seconds:g} s, {rates}"
    if run is not None and run.efficiency is not None and (step := step_words(run.efficiency.step)):
        rates += f"; step time {step}"
    return ["NOT JUDGED", *found, *layout.labelled("sampling", rates, 15)]


def _price_words(sku: str | None) -> str:
    known = range_of(sku) if sku else None
    listed = (
        f" (dollars per GPU-hour; list prices of {plain(sku or '')} in the price book: "
        f"{money(known[0], 'USD')} to {money(known[1], 'USD')})"
        if known
        else " (dollars per GPU-hour)"
    )
    return f"no price known: add --price P{listed}"


def _foot(report: RecordingReport) -> list[str]:
    found = []
    if report.ended is not None:
        seconds = max(1, report.microseconds) / 1_000_000
        spent = report.ended.watcher_cpu_seconds
        # Of a command that is over at once the watcher's own start would be the whole figure.
        core = f"{100 * spent / seconds:.1f} % of one core" if seconds >= _SHARE_SECONDS else f"{spent:.1f} CPU seconds"
        memory = report.ended.watcher_rss_bytes
        found.append(
            f"gpuledger used {core}{f' and {bytes_words(memory)}' if memory else ''}.   saved {plain(report.file)}"
        )
    command = report.header.command if len(report.header.command) < _NAME_WIDTH else "..."
    return [*found, f"next: gpuledger run --against {plain(report.file)} -- {plain(command)}"]
