"""What a chart draws, as plain data: the browser's script or our own SVG draws it, and a table shows its numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.argument.plot import Plot
from analyzer.findings import Finding
from analyzer.period import local
from analyzer.report.words import day, plain
from analyzer.states import Class


@dataclass(frozen=True, slots=True)
class Trace:
    """One stacked band: its name, its class and one value a bar."""

    name: str
    klass: Class
    values: tuple[float | None, ...]  # None where nobody reported


@dataclass(frozen=True, slots=True)
class Chart:
    """Stacked bars over local time. `mark` is what the values are held to; None where they are held to nothing."""

    title: str
    unit: str
    times: tuple[str, ...]  # ISO local times
    labels: tuple[str, ...]  # the same, as people read them
    traces: tuple[Trace, ...]
    mark: float | None = None

    def data(self) -> dict[str, object]:
        """Return it as JSON-ready data for page.js."""
        traces = [{"name": each.name, "class": each.klass, "y": each.values} for each in self.traces]
        said = {"title": self.title, "unit": self.unit, "mark": self.mark}
        return said | {"x": self.times, "labels": self.labels, "traces": traces}

    @property
    def rows(self) -> list[tuple[str, list[str]]]:
        """Return its numbers as a table: a row a bar."""
        return [
            (label, [_shown(trace.values[place]) for trace in self.traces]) for place, label in enumerate(self.labels)
        ]


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def chart(
    title: str, unit: str, starts: Sequence[int], timezone: str, traces: tuple[Trace, ...], mark: float | None = None
) -> Chart:
    """Return a chart whose bars begin at these moments, microseconds UTC."""
    moments = [local(start, timezone) for start in starts]
    times = tuple(moment.replace(tzinfo=None).isoformat() for moment in moments)
    return Chart(title, unit, times, tuple(f"{day(moment)} {moment:%H:%M}" for moment in moments), traces, mark)


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
    states = (Trace("working", "useful", plot.working), Trace(plot.label, lost, plot.lost))
    found = [chart(f"What the GPUs did: {whose_gpus(finding, plot)}", "% of its GPUs", plot.times, timezone, states)]
    if (signal := plot.signal) is not None:
        mark = "" if signal.mark is None else f"; the rule's mark is {signal.mark:g}"
        trace = Trace(signal.name, "overhead", signal.values)
        title = f"{signal.name[:1].upper()}{signal.name[1:]}, {signal.unit}{mark}"
        found.append(chart(title, signal.unit, plot.times, timezone, (trace,), signal.mark))
    return tuple(found)
