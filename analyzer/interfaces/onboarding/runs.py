"""Where the runs come from, without which all GPUs would be nobody's: Slurm, kube-state-metrics, a file, or labels."""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analyzer.ledger.teams import RunIdentity, TeamBook
from analyzer.queries.ledger_query import labels_of
from collector.importing import allocation_file, slurm_history
from collector.importing.allocation_file import of_holders, sightings, with_labelled
from collector.importing.history import History, Span
from collector.importing.known_allocations import Sighting
from collector.importing.prometheus_history import pod_history, read_pods
from collector.prometheus.client import Client
from collector.schedulers.kubernetes.source import Labels
from collector.store.session import Session

_Holders = Sequence[Mapping[str, object]]
_NO_REQUESTS = "kube_pod_container_resource_requests names no GPU of NVIDIA: is it kept, with the label resource?"


@dataclass(frozen=True, slots=True)
class Runs:
    """A source of runs that has been asked. `history` makes its history once the store knows the GPUs.

    `word` is how the screen calls it, `jobs` what it calls runs; `in_labels` says that only the metrics tell of them;
    `unread` is how many rows of it could not be read.
    """

    word: str
    jobs: str
    cluster: str
    history: "Callable[[Session, _Holders], History]"
    notes: tuple[str, ...] = ()
    in_labels: bool = False
    unread: int = 0

    def sightings(self, holders: _Holders) -> list[Sighting]:
        """Return what the exporter's labels say of who held which GPU."""
        return sightings(holders, self.cluster)


@dataclass(frozen=True, slots=True)
class Mapped:
    """The runs of a history, and how many of them no rule gives to a team."""

    runs: int
    accounts: int
    unmapped: int
    endings: int


def of_slurm(options: argparse.Namespace, asked: Span) -> Runs:
    """Ask Slurm's accounting, or read its files.

    Raises:
        SchedulerError: accounting does not answer.
        FileRefusedError: a file is none of Slurm's.
    """
    from collector.cli.imports import slurm_told

    told, cluster, notes = slurm_told(options, asked)

    def history(session: Session, _: _Holders) -> History:
        return slurm_history.history(session, told, cluster, asked.since, asked.until)

    return Runs("sacct", "GPU job", cluster, history, (*told.sentences(), *notes), unread=told.unread)


def of_kube_state(client: Client, cluster: str, labels: Labels, asked: Span) -> Runs:
    """Ask the same Prometheus for what kube-state-metrics said of pods.

    Raises:
        ServerError: it does not answer.
    """
    state = read_pods(client, asked.since, asked.until)

    def history(session: Session, holders: _Holders) -> History:
        return with_labelled(pod_history(session, state, cluster, labels, asked.until), holders, cluster, asked.since)

    notes = () if state.pods or state.named else (_NO_REQUESTS,)
    return Runs("kube-state-metrics", "run", cluster, history, notes)


def of_file(path: Path, cluster: str, asked: Span) -> Runs:
    """Take the allocations of a file.

    Raises:
        FileRefusedError: it is no file of allocations.
    """
    rows = allocation_file.read_rows(path)

    def history(session: Session, _: _Holders) -> History:
        return allocation_file.history(session, rows, cluster, asked.since, asked.until)

    return Runs(path.name, "run", cluster, history, unread=rows.unread)


def of_labels(cluster: str, asked: Span) -> Runs:
    """Take the pods and jobs that the exporter's own labels name."""

    def history(_: Session, holders: _Holders) -> History:
        return of_holders(holders, cluster, asked.since, asked.until)

    return Runs("labels of the exporter", "run", cluster, history, in_labels=True)


def mapped(history: History, book: TeamBook) -> Mapped:
    """Return how the runs of a history map to teams."""
    identities = {run.run_id: run for run in _identities(history)}
    unmapped = sum(book.team_of(run) is None for run in identities.values())
    accounts = {run.account for run in identities.values() if run.account}
    endings = {claim.run_id for claim in history.claims if claim.facts.get("exit_status")}
    return Mapped(len(identities), len(accounts), unmapped, len(endings))


def _identities(history: History) -> Iterable[RunIdentity]:
    for claim in history.claims:
        facts = claim.facts
        said = {name: _text(facts.get(name)) for name in ("account", "user", "queue", "project", "name")}
        yield RunIdentity(claim.run_id, claim.started_at, **said, labels=labels_of(_text(facts.get("labels"))))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


@dataclass(frozen=True, slots=True)
class UnmappedGroup:
    """Unmapped runs that say the same of themselves. `example` is one run's id."""

    what: str
    runs: int
    example: str


def identities(session: Session) -> list[RunIdentity]:
    """Return what each run of the store's allocations says of itself: one row a run, by run id.

    What hosts call by another name is left to the run's own scheduler.
    """
    rows = session.rows(
        """
        SELECT run_id, min(coalesce(started_at, submitted_at, 0)), min(account), min("user"), min(queue),
               min(project), min(name), min(labels)
        FROM allocations
        WHERE run_id NOT IN (SELECT alias_run_id FROM run_aliases a WHERE a.run_id <> alias_run_id)
        GROUP BY run_id ORDER BY run_id
        """
    )
    return [
        RunIdentity(run_id, at_us, account, user, queue, project, name, labels_of(labels))
        for run_id, at_us, account, user, queue, project, name, labels in rows
    ]


def unmapped_runs(session: Session, book: TeamBook) -> tuple[int, list[UnmappedGroup]]:
    """Return how many runs map to a team, and the others in groups, the largest first."""
    groups: dict[str, list[str]] = defaultdict(list)
    mapped = 0
    for run in identities(session):
        if book.team_of(run) is not None:
            mapped += 1
        else:
            groups[_what(run)].append(run.run_id)
    found = [UnmappedGroup(what, len(runs), runs[0]) for what, runs in groups.items()]
    return mapped, sorted(found, key=lambda group: (-group.runs, group.what))


def _what(run: RunIdentity) -> str:
    said = {"account": run.account, "user": run.user, "queue": run.queue, "project": run.project}
    return ", ".join(f"{key} {value}" for key, value in said.items() if value is not None) or "says nothing of itself"
