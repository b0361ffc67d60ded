"""What a chart of bars over time shows, as plain data: a figure draws it, and a table beside it has its numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.period import local
from analyzer.states import Class
from analyzer.text.words import day


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
