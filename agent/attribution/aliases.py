"""Other names of runs: a pod by name until its uid is known, a Slurm array task by the number of its job."""

from collections.abc import Mapping

from agent.attribution.holds import Meant
from agent.source import Row
from agent.state_file import StateFile

ALIASES_MAX = 1024  # the oldest is forgotten first
_SECTION = "aliases"


class Aliases:
    """Remembers which name stands for which run, and tells each once as a row of `run_aliases`."""

    def __init__(self, state_file: StateFile | None = None) -> None:
        self._state_file = state_file or StateFile(None)
        kept = self._state_file.section(_SECTION)
        self._runs = {name: run for name, run in kept.items() if isinstance(run, str)}
        self._untold: list[Row] = []

    @property
    def runs(self) -> Mapping[str, str]:
        """The run that each name stands for."""
        return self._runs

    def last_part(self, name: str) -> str | None:
        """Return the id at the end of the run that a name stands for, as the uid of a pod, or None."""
        run = self._runs.get(name)
        return None if run is None else run.rpartition("/")[2]

    def learn(self, names: Mapping[str, Meant]) -> None:
        """Take what names stand for; a name that now stands for another run is told again."""
        for name, meant in names.items():
            if self._runs.get(name) != meant.run_id and name != meant.run_id:
                runs = {other: run for other, run in self._runs.items() if other != name}  # another thread reads it
                self._runs = dict([*runs.items(), (name, meant.run_id)][-ALIASES_MAX:])
                self._untold.append({"alias_run_id": name, "run_id": meant.run_id, "member": meant.member})

    def rows(self) -> list[Row]:
        """Return what was not yet told."""
        rows, self._untold = self._untold, []
        if rows:
            self._state_file.keep(_SECTION, self._runs)
        return rows
