"""Ask Slurm's commands, in JSON where this release has it, else in text."""

import logging
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from agent.wire.units import SECOND_US
from collector.errors import SchedulerError
from collector.schedulers.node_book import NodeState
from collector.schedulers.slurm import events, json_jobs, nodes, text_jobs
from collector.schedulers.slurm.commands import Commands
from collector.schedulers.slurm.job import Job

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
_Way = tuple[Callable[[bytes], T], tuple[str, ...]]  # how an answer is read, and the command that gives it
Form = Literal["auto", "json", "text"]

_ACCOUNT = ("sacct", "--allusers", "--allocations", "--duplicates", "--noheader", "--starttime")


class SlurmReader:
    """Asks one cluster. A way that has answered once is kept; one that has not is left for the next that does."""

    def __init__(self, commands: Commands, form: Form = "auto") -> None:
        self._commands = commands
        self._form = form
        self._kept: dict[str, int] = {}
        self._no_accounting = False

    def queued(self) -> list[Job]:
        """Return the jobs that the controller knows: waiting, holding, and ended minutes ago.

        Raises:
            SchedulerError: it did not answer.
        """
        ways: list[_Way[list[Job]]] = [
            (json_jobs.queued, ("squeue", "--all", "--states=all", "--json")),
            (text_jobs.jobs_of_show, ("scontrol", "--all", "--details", "show", "job")),
        ]
        return self._ask("jobs", ways)

    def accounted(self, since: int) -> list[Job]:
        """Return the jobs that accounting knows to have existed since then (microseconds UTC).

        Raises:
            SchedulerError: it did not answer; a cluster may have none.
        """
        start = f"uts{since // SECOND_US}"
        fields = f"--format={text_jobs.SACCT_FIELDS}"
        ways: list[_Way[list[Job]]] = [
            (json_jobs.accounted, (*_ACCOUNT, start, "--json")),
            (text_jobs.accounted, (*_ACCOUNT, start, "--parsable2", fields)),
        ]
        found = self._ask("accounting", ways)
        self._no_accounting = False
        return found

    def history(self, since: int, until: int, cluster: str | None = None) -> list[Job]:
        """Return the jobs that accounting knows to have existed between two times (microseconds UTC).

        In text, unless JSON was asked for: a quarter of the size. `cluster` is another one of the same database.

        Raises:
            SchedulerError: it did not answer.
        """
        span = (f"uts{since // SECOND_US}", "--endtime", f"uts{until // SECOND_US}")
        other = ("--clusters", cluster) if cluster else ()
        asked = (*_ACCOUNT, *span, *other)
        if self._form == "json":
            return self._one((json_jobs.accounted, (*asked, "--json")))
        fields = text_jobs.HISTORY_FIELDS
        text = (*asked, "--parsable2", f"--format={fields}")
        return self._one((lambda said: text_jobs.accounted(said, fields), text))

    def events(self, since: int, cluster: str | None = None) -> list[events.Event]:
        """Return when hosts were out of service since then (microseconds UTC), as accounting has it.

        Raises:
            SchedulerError: it did not answer.
        """
        where = (f"clusters={cluster}",) if cluster else ()
        asked = ("sacctmgr", "--parsable2", "show", "event", f"start=uts{since // SECOND_US}", *where)
        return self._one((events.node_events, (*asked, f"format={events.FIELDS}")))

    def nodes(self) -> list[NodeState]:
        """Return the states of the hosts.

        Raises:
            SchedulerError: the controller did not answer.
        """
        ways: list[_Way[list[NodeState]]] = [
            (nodes.from_json, ("scontrol", "show", "node", "--json")),
            (nodes.from_json, ("sinfo", "--json")),
            (nodes.from_text, ("scontrol", "--all", "show", "node")),
        ]
        return self._ask("hosts", ways)

    def without_accounting(self, error: SchedulerError) -> None:
        """Say once that accounting does not answer: ends are then known only while the controller remembers them."""
        if not self._no_accounting:
            _LOG.warning("Slurm's accounting does not answer, and how jobs end may stay unknown: %s", error)
        self._no_accounting = True

    def _ask(self, subject: str, ways: Sequence[_Way[T]]) -> T:
        chosen = [way for way in ways if self._allowed(way)]
        if subject in self._kept:
            number = self._kept.pop(subject)  # where it fails now, the others are tried again: Slurm may be a new one
            found = self._one(chosen[number])
            self._kept[subject] = number
            return found
        failures: list[SchedulerError] = []
        for number, way in enumerate(chosen):
            try:
                found = self._one(way)
            except SchedulerError as error:
                failures.append(error)
                continue
            self._kept[subject] = number
            if failures:
                _LOG.info("Slurm's %s are read by %s: %s", subject, " ".join(way[1][:2]), failures[0])
            return found
        raise failures[-1]

    def _allowed(self, way: _Way[T]) -> bool:
        return self._form == "auto" or ("--json" in way[1]) == (self._form == "json")

    def _one(self, way: _Way[T]) -> T:
        read, (name, *arguments) = way
        return read(self._commands.output(name, *arguments))
