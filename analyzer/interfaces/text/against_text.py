"""Two recordings of one command side by side: did the change work, by how much, and what is the next limit."""

from analyzer.interfaces.cli.recording import RecordingReport
from analyzer.interfaces.text.moved import largest_move
from analyzer.text.words import apportion_tree, clock, duration, nearest, percent, plain


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
