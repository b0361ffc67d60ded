"""What the charts of a finding show: what its run did, and the signal that decided."""

from analyzer.charts.series import Chart, Trace, chart
from analyzer.findings.argue import Plot
from analyzer.findings.finding import Finding
from analyzer.states import Class
from analyzer.text.words import plain


def whose_gpus(finding: Finding, plot: Plot) -> str:
    """Return whose GPUs a finding's plot shows: of many runs the one that lost most."""
    short = plain(plot.run_id.rpartition("/")[2])
    if len(finding.run_ids) > 1:
        return f"{short}, 1 of {len(finding.run_ids):,} runs"
    name = plain(finding.subject)
    return name if short in name else f"{name} ({short})"


def finding_charts(finding: Finding, plot: Plot | None, timezone: str) -> tuple[Chart, ...]:
    """Return what a finding's verdict stands on: the states of its run, and below them the signal that decided."""
    if plot is None:
        return ()
    lost: Class = "unknown" if finding.suspicion else "avoidable"
    states = (Trace("productive", "useful", plot.working), Trace(plot.label, lost, plot.lost))
    found = [chart(f"What the GPUs did: {whose_gpus(finding, plot)}", "% of its GPUs", plot.times, timezone, states)]
    if (signal := plot.signal) is not None:
        mark = "" if signal.mark is None else f"; the rule's mark is {signal.mark:g}"
        trace = Trace(signal.name, "overhead", signal.values)
        title = f"{signal.name[:1].upper()}{signal.name[1:]}, {signal.unit}{mark}"
        found.append(chart(title, signal.unit, plot.times, timezone, (trace,), signal.mark))
    return tuple(found)
