"""The report on one command as text: time first, the limit, what to change, what lacked data; or two of them."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from agent.wire.units import SECOND_US
from analyzer.ledger.breakdown import BreakdownLine, breakdown_lines
from analyzer.prices.list_prices import range_of
from analyzer.queries.ledger_query import Breakdown
from analyzer.reports.host_side import Device, HostSide, RecordingReport
from analyzer.text.layout import TextLayout
from analyzer.text.table import CellUnit, TableColumn, bar_column, paper_lines
from analyzer.text.words import (
    apportion_tree,
    bytes_words,
    clock,
    counted,
    duration,
    gpu_hours,
    large,
    money,
    nearest,
    percent,
    plain,
    plain_sentence,
)

if TYPE_CHECKING:
    from analyzer.reports.run import RunDocument


def _no_gpu_sentence(report: RecordingReport) -> str:
    """Return the answer where no GPU was watched: why not, and what the host did."""
    host, seconds = report.host, max(1, report.microseconds // SECOND_US)
    why = plain(report.header.no_gpu) or _unread(report)
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


def _host_lines(host: HostSide, layout: TextLayout) -> list[str]:
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


def _against_lines(before: RecordingReport, now: RecordingReport) -> list[str]:
    """Return both runs side by side, as the mean of their GPUs."""
    columns: tuple[TableColumn[tuple[str, int, int]], ...] = (
        TableColumn(f"AGAINST {plain(Path(before.file).stem)}", lambda row: row[0], width=42, align="<"),
        TableColumn("before", lambda row: row[1], _CLOCK, 10),
        TableColumn("now", lambda row: row[2], _CLOCK, 10),
        TableColumn("change", lambda row: row[2] - row[1], _CHANGE, 10),
    )
    return paper_lines(columns, _against_rows(before, now))


def _against_rows(before: RecordingReport, now: RecordingReport) -> list[tuple[str, int, int]]:
    """Return where the time of both went, a row a label, in seconds; the last row is of all of it."""
    rows: list[tuple[str, int, int]] = []
    if before.run is not None and now.run is not None:
        then, today = _seconds(before), _seconds(now)
        rows = [(label, then.get(label, 0), today.get(label, 0)) for label in dict.fromkeys((*then, *today))]
    return [*rows, ("total", nearest(before.microseconds, SECOND_US), nearest(now.microseconds, SECOND_US))]


_CLOCK = CellUnit(clock)
_CHANGE = CellUnit(lambda seconds: f"{'+' if seconds > 0 else ''}{clock(seconds)}")


def _seconds(report: RecordingReport) -> dict[str, int]:
    if report.run is None:
        return {}
    entries = report.run.breakdown.entries
    groups = [[entry.milliseconds for entry in entries]]
    gpus = max(1, report.gpus)
    _, members = apportion_tree(nearest(sum(groups[0]), 1000 * gpus), groups, 1000 * gpus)
    return {entry.label: seconds for entry, seconds in zip(entries, members[0], strict=True)}


_SHARE_SECONDS = 10  # below this a share of a core says more about the start than about the watching
_NAME_WIDTH = 28
_NARROW = 16  # characters under the 80 that the tables are drawn for


def recording_text(report: RecordingReport, layout: TextLayout, before: RecordingReport | None = None) -> str:
    """Return the report, compared with an earlier one where there is one."""
    sections = [_head(report, layout)]
    if before is not None:
        from analyzer.interfaces.text.compare_text import against_sentence, came_out

        then = came_out(before, report)
        compared = [*_against_lines(before, report), *(layout.wrap(then, "  ", "    ") if then else [])]
        sections += [layout.wrap(against_sentence(before, report)), compared]
    elif report.not_judged:
        sections += [layout.wrap(plain(report.not_judged))]
    elif report.run is not None:
        sections += _of_run(report.run, report, layout)
    else:
        sections += [layout.wrap(_no_gpu_sentence(report)), _host_lines(report.host, layout)]
    sections += [_insufficient_data(report, layout), _sampling(report, layout), _foot(report, layout)]
    return layout.page([line for section in sections if section for line in (*section, "")][:-1])


COMMENT_MARK = "<!-- gpuledger run -->"  # by which CI finds its comment again, to change it rather than add another
_MARKUP = re.compile(r"[\\`*_\[\]<>#!|~@&$^]")  # of GitHub's and GitLab's Markdown: links, mentions, formulas too


def recording_markdown(report: RecordingReport, before: RecordingReport | None = None) -> str:
    """Return the report as a comment for a pull request, in which no name of the run is markup, or calls anybody."""
    table: list[tuple[str, ...]]
    if before is not None:
        from analyzer.interfaces.text.compare_text import came_out

        table = [("", "before", "now", "change")]
        table += [
            (name, clock(then), clock(now), _CHANGE.words(now - then))
            for name, then, now in _against_rows(before, report)
        ]
    else:
        table = [("", "time"), *((name, clock(seconds)) for name, seconds in _seconds(report).items())]
    lines = [COMMENT_MARK, f"**{_markdown(recording_sentence(report, before))}**", ""]
    for number, row in enumerate(table if len(table) > 1 else ()):
        lines += [f"| {' | '.join(map(_markdown, row))} |", *(["|---|" + "---:|" * (len(row) - 1)] * (number == 0))]
    if before is not None and (then := came_out(before, report)):
        lines += ["", _markdown(then)]
    if report.run is not None and report.run.recommendations:
        from analyzer.interfaces.text.run_text import TRY_SHOWN

        next_ones = (plain(advice.title) for advice in report.run.recommendations[:TRY_SHOWN])
        lines += ["", "To change next:", *(f"- {_markdown(title)}" for title in next_ones)]
    took = duration(nearest(report.microseconds, SECOND_US))
    lines += ["", f"<code>{_markdown(report.header.command)}</code> took {took} on {counted(report.gpus, 'GPU')}"]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", plain_sentence(text))


def _head(report: RecordingReport, layout: TextLayout) -> list[str]:
    took = duration(nearest(report.microseconds, SECOND_US))
    size = f"{took} on {counted(report.gpus, 'GPU')}" if report.gpus else f"{took} on this host"
    if report.run is not None:
        size += f" = {gpu_hours(report.run.breakdown.milliseconds, 2)} GPU-hours"
        cost = report.run.breakdown.cost_micros
        size += f", {money(cost, report.run.currency)}" if cost is not None else ""
    if report.ended is None:
        size += ", as far as it was watched"
    elif report.ended.exit_code != 0:
        size += f", exit code {report.ended.exit_code}"
    name = layout.cut(report.header.command, layout.width - 2)
    one_line = len(name) <= _NAME_WIDTH and _NAME_WIDTH + 1 + len(size) < layout.width
    rows = [(name, size)] if one_line else [(name, ""), ("", size)]
    if not one_line and _NAME_WIDTH + len(size) >= layout.width:  # narrow paper
        return [name, *layout.wrap(size), *(f"  {told}" for _, told in _progress(report.run))]
    columns: tuple[TableColumn[tuple[str, str]], ...] = (
        TableColumn("", lambda row: row[0], width=_NAME_WIDTH, align="<"),
        TableColumn("", lambda row: row[1], gap=1),
    )
    return paper_lines(columns, [*rows, *_progress(report.run)], indent="")


def _progress(run: "RunDocument | None") -> list[tuple[str, str]]:
    told = [] if run is None else [(run.steps, "steps"), (run.tokens, "tokens")]
    counts = ", ".join(f"{large(count)} {what}" for count, what in told if count)
    return [("", f"{counts} (said by the run)")] if counts else []


def _of_run(run: "RunDocument", report: RecordingReport, layout: TextLayout) -> list[list[str]]:
    from analyzer.interfaces.text.finding_text import evidence_lines
    from analyzer.interfaces.text.run_text import changes_to_try, run_sentence, sparks

    sections = [
        layout.wrap(run_sentence(run)),
        _time_table(run.breakdown, report.gpus, layout),
        sparks(run, layout),
    ]
    if run.findings:
        first = run.findings[0]
        sections.append([*layout.ends("WHY", f"confidence: {first.confidence}"), *evidence_lines(first, layout)])
    sections.append(changes_to_try(run, report, layout))
    return sections


def _time_table(breakdown: Breakdown, gpus: int, layout: TextLayout) -> list[str]:
    """Return where the time went, as the mean of the GPUs: clock time, share and GPU-hours, each adding up."""
    rows = time_rows(breakdown, gpus)
    label = max(20, *(len(line.label) + 1 for line, _ in rows))
    bar = max(0, min(12 + max(0, layout.extra), layout.width - 41 - label))
    narrow = layout.extra < -_NARROW
    title = "WHERE THE TIME WENT" + (f" (mean of the {gpus} GPUs)" if gpus > 1 and not narrow else "")
    columns: tuple[TableColumn[tuple[BreakdownLine, str]], ...] = (
        TableColumn(title, lambda row: _first(row[0]), width=13, align="<"),
        TableColumn("", lambda row: "" if row[0].level == "total" else row[0].label, width=label, align="<"),
        bar_column(lambda row: None if row[0].level == "total" else row[0].share, bar, layout),
        TableColumn("time", lambda row: row[1], width=9),
        TableColumn("%", lambda row: row[0].percent, width=7),
        TableColumn("GPU-hours", lambda row: row[0].hours, width=10 if narrow else 12),
    )
    return paper_lines(columns, rows)


def time_rows(breakdown: Breakdown, gpus: int) -> list[tuple[BreakdownLine, str]]:
    """Return the lines of where the time went, each with its clock time as the mean of the GPUs; they add up."""
    clocks = [*_clocks(breakdown, gpus), clock(nearest(breakdown.milliseconds, 1000 * gpus))]
    return list(zip(breakdown_lines(breakdown, subtotals=False), clocks, strict=True))


def recording_sentence(report: RecordingReport, before: RecordingReport | None = None) -> str:
    """Return the answer: what a change did, why nothing is judged, or what took the time."""
    if before is not None:
        from analyzer.interfaces.text.compare_text import against_sentence

        return against_sentence(before, report)
    if report.not_judged:
        return plain_sentence(report.not_judged)
    if report.run is None:
        return _no_gpu_sentence(report)
    from analyzer.interfaces.text.run_text import run_sentence

    return run_sentence(report.run)


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


def _insufficient_data(report: RecordingReport, layout: TextLayout) -> list[str]:
    found = []
    run = report.run
    if run is None and not report.not_judged:
        found += layout.labelled("GPUs", plain(report.header.no_gpu) or _unread(report), 15)
    elif run is not None and run.breakdown.cost_micros is None:
        found += layout.labelled("cost", _price_words(run.facts.sku), 15)
    for rule in run.not_judged if run is not None else ():
        found += layout.labelled(rule.rule.replace("_", " ")[:12], plain(rule.missing), 15)
    if report.ended is not None and report.ended.foreign_gpus:
        theirs = f"{counted(report.ended.foreign_gpus, 'GPU')} not counted: used by others alone"
        found += layout.labelled("others", f"{theirs} ({plain(report.ended.others)})", 15)
    if report.ended is not None and report.ended.left_processes and not report.not_judged:
        found += layout.labelled("processes", f"{report.ended.left_processes} left behind, not watched any more", 15)
    if report.refused:
        lost = f"{counted(len(report.refused), 'batch')} could not be read: {plain(report.refused[0])}"
        found += layout.labelled("recording", lost, 15)
    return ["INSUFFICIENT DATA", *found] if found else []


def _unread(report: RecordingReport) -> str:
    if report.ended is None:
        return "not written, or lost: the recording has no end"
    if not report.gpus:
        return "used by others alone"
    return "not read before the command ended"


def _sampling(report: RecordingReport, layout: TextLayout) -> list[str]:
    run = report.run
    rates = f"host every {report.header.host_seconds:g} s"
    if report.header.gpus:
        rates = f"GPUs every {report.header.gpu_seconds:g} s, {rates}"
    if run is not None and run.efficiency is not None:
        from analyzer.interfaces.text.efficiency_text import step_words

        step = step_words(run.efficiency.step)
        rates += f"; step time {step}" if step else ""
    return layout.labelled("SAMPLING", rates, 15, indent=0)


def _price_words(sku: str | None) -> str:
    known = range_of(sku) if sku else None
    listed = (
        f" (dollars per GPU-hour; list prices of {plain(sku or '')} in the price list: "
        f"{money(known[0], 'USD')} to {money(known[1], 'USD')})"
        if known
        else " (dollars per GPU-hour)"
    )
    return f"no price known: add --price P{listed}"


def _foot(report: RecordingReport, layout: TextLayout) -> list[str]:
    found = []
    if report.ended is not None:
        seconds = max(1, report.microseconds) / SECOND_US
        spent = report.ended.watcher_cpu_seconds
        # Of a command that is over at once the watcher's own start would be the whole figure.
        core = f"{100 * spent / seconds:.1f}% of one core" if seconds >= _SHARE_SECONDS else f"{spent:.1f} CPU seconds"
        memory = report.ended.watcher_rss_bytes
        used = f"gpuledger used {core}{f' and {bytes_words(memory)}' if memory else ''}."
        found += layout.ends(used, f"saved {plain(report.file)}", hanging=0)
    command = report.header.command if len(report.header.command) < _NAME_WIDTH else "..."
    return [*found, f"next: gpuledger run --against {plain(report.file)} -- {plain(command)}"]
