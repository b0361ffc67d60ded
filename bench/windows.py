"""The windows that benches tell: stretches of the simulated hosts' telemetry, ready for any agent."""

from bench.bodies import Window, window
from bench.telemetry import Simulation


def windows_of(
    simulation: Simulation, tables: tuple[str, ...], beats: int, seconds: int, *, every_column: bool = False
) -> list[list[Window]]:
    """Return of every simulated host its windows of so many beats, over so many seconds."""
    found = []
    for host in simulation.hosts:
        recorded = simulation.tables(host, seconds, tables, every_column=every_column)
        found.append([window(recorded, beat, beats) for beat in range(0, seconds, beats)])
    return found
