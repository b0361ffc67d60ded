"""The report on one command as text: time first, the limit, what to change, what was not judged; or two of them."""

from analyzer.interfaces.cli.recording import RecordingReport
from analyzer.interfaces.text.compare_text import largest_move
from analyzer.interfaces.text.efficiency_text import step_words
from analyzer.interfaces.text.finding_text import evidence_lines
from analyzer.interfaces.text.pasting import folded
from analyzer.interfaces.text.run_text import came_out, large, predicted, run_sentence, sparks
from analyzer.ledger.breakdown import BreakdownLine, breakdown_lines
from analyzer.prices.list_prices import range_of
from analyzer.queries.ledger_query import Breakdown
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.host_side import Device, HostSide
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
    percent,
    plain,
    plain_sentence,
)


def no_gpu_sentence(report: RecordingReport) -> str:
    """Return the answer where no GPU was watched: why not, and what the host did."""
    host, seconds = report.host, max(1, report.microseconds // 1_000_000)
    why = plain(report.header.no_gpu) or "it was not read in time"
    told = [f"No GPU was watched ({why}), so where GPU time goes is not known; this is the host's side."]
    if host.cpu_busy_ratio is not None:
        cores = f" of {host.cores} cores" if host.cores else ""
        used = f"{host.cpu_busy_ratio * (host.cores or 1):.1f}{cores}" if host.cores else _ratio(host.cpu_busy_ratio)
        told.append(f"The host kept {used} busy")
        if report.ended is not None:
            own = report.ended.command_cpu_seconds / seconds
            told[-1] += f", the command {own:.1f} of them" if host.cores else ""
        told[-1] += "."
    return " ".join(told)


def _ratio(value: float | None) -> str:
    return "-" if value is None else percent(round(value * 1000), 1000)


def host_lines(host: HostSide, layout: TextLayout) -> list[str]:
    """Return CPU, workers, memory, disks and links as lines; empty where the host reported nothing."""
    found = ["HOST"]
    if host.cpu_busy_ratio is not None:
        waiting = f", waiting for a disk {_ratio(host.cpu_iowait_ratio)}" if host.cpu_iowait_ratio is not None else ""
        text = f"{_ratio(host.cpu_busy_ratio)} busy, {_ratio(host.cpu_busy_ratio_max)} at most{waiting}"
        found += layout.labelled("CPU", text, 18)
    if host.workers_max:
        text = f"{host.workers_max} at most; the busiest used {_ratio(host.workers_busiest_cpu_ratio)} of a core"
        found += layout.labelled("workers", text, 18)
    if host.memory_used_bytes_max is not None:
        found += layout.labelled("memory", f"{bytes_words(host.memory_used_bytes_max)} at most, of the whole host", 18)
    for disk in host.disks:
        found += layout.labelled(f"disk {plain(disk.device)}"[:15], _device(disk, "read", "written"), 18)
    for link in host.links:
        found += layout.labelled(f"link {plain(link.device)}"[:15], _device(link, "in", "out"), 18)
    return found if len(found) > 1 else []


def _device(device: Device, inward: str, outward: str) -> str:
    parts = [f"{bytes_words(device.read_bytes or 0)} {inward}, {bytes_words(device.written_bytes or 0)} {outward}"]
    if device.fastest_bytes_per_second:
        parts.append(f"{bytes_words(device.fastest_bytes_per_second)}/s at most")
    if device.busy_ratio is not None:
        parts.append(f"{_ratio(device.busy_ratio)} busy at most")
    return "; ".join(parts)


def against_sentence(before: RecordingReport, now: RecordingReport) -> str:
    """Return whether the change worked, by how much, and what the largest loss is now; failures are not compared."""
    failed = [name for name, one in (("the earlier", before), ("this", now)) if one.ended and one.ended.exit_code != 0]
    if failed:
        return f"Not compared: {' and '.join(failed)} command failed, so a shorter time is no success."
    change = now.microseconds - before.microseconds
    share = percent(abs(change) * 1000, before.microseconds * 1000)
    took = duration(abs(change) // 1_000_000)
    told = f"{'Faster' if change < 0 else 'Slower'} by {took} ({share})." if abs(change) >= 1_000_000 else "As fast."
    if before.run is None or now.run is None:
        return f"{told} No GPU was watched in {'either' if before.run is now.run else 'one'} of them."
    moved = largest_move(before.run.breakdown, now.run.breakdown)
    lost = max(now.run.breakdown.of("avoidable").entries, key=lambda entry: entry.milliseconds, default=None)
    blind = now.run.breakdown.has_gap
    left = "" if blind else " Nothing avoidable is left."
    still = f" Still the largest loss: {lost.label}." if lost else left
    return f"{told} {moved}{still}"


def against_lines(before: RecordingReport, now: RecordingReport) -> list[str]:
    """Return both runs side by side, as the mean of their GPUs."""
    title = f"AGAINST {plain(before.file).removesuffix('.json')}"
    found = [f"{title:<42}{'before':>10}{'now':>10}{'change':>10}"]
    if before.run is not None and now.run is not None:
        then, today = _seconds(before), _seconds(now)
        labels = dict.fromkeys((*then, *today))
        found += [_compared(label, then.get(label, 0), today.get(label, 0)) for label in labels]
    total = _compared("total", *(nearest(each.microseconds, 1_000_000) for each in (before, now)))
    return [*found, total]


def _seconds(report: RecordingReport) -> dict[str, int]:
    if report.run is None:
        return {}
    entries = report.run.breakdown.entries
    groups = [[entry.milliseconds for entry in entries]]
    gpus = max(1, report.header.gpus)
    _, members = apportion_tree(nearest(sum(groups[0]), 1000 * gpus), groups, 1000 * gpus)
    return {entry.label: seconds for entry, seconds in zip(entries, members[0], strict=True)}


def _compared(label: str, before: int, now: int) -> str:
    change = f"{'+' if now > before else ''}{clock(now - before)}"
    return f"  {label:<40}{clock(before):>10}{clock(now):>10}{change:>10}"


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
        core = f"{100 * spent / seconds:.1f}% of one core" if seconds >= _SHARE_SECONDS else f"{spent:.1f} CPU seconds"
        memory = report.ended.watcher_rss_bytes
        found.append(
            f"gpuledger used {core}{f' and {bytes_words(memory)}' if memory else ''}.   saved {plain(report.file)}"
        )
    command = report.header.command if len(report.header.command) < _NAME_WIDTH else "..."
    return [*found, f"next: gpuledger run --against {plain(report.file)} -- {plain(command)}"]
