"""The ledger as a plan asks it: how long a job takes, and what nodes there are. A store or a server answers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from urllib.parse import urlencode

from agent.wire.units import DAY_US, PERMILLE, SECOND_US
from analyzer.capacity.planner.amounts import means
from analyzer.capacity.planner.problem import UnseenError
from analyzer.errors import ConfigError
from analyzer.ledger.coverage import ledger_end
from analyzer.queries.ledger_query import QueuedRun, read_queue
from analyzer.queries.statements import statements
from analyzer.recommendations.site import Host, Placed
from analyzer.recommendations.site_query import SiteQuery
from analyzer.server_client import ask_server_json, of_this_version, typed
from analyzer.text.words import counted, plain
from collector.store.session import Session

HISTORY_PATH, NODES_PATH = "/v1/plan/history", "/v1/plan/nodes"
_P10, _P50, _P90 = 10, 50, 90


@dataclass(frozen=True, slots=True)
class Peaks:
    """The most that any of the runs used on one host, and of memory on one GPU: gauges, not needs. null: not known."""

    cores: float | None
    memory_bytes: int | None
    gpu_memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class History:
    """Wall times of the newest completed runs of one name, size and kind of GPU, the shortest first.

    They ran on one host each; of more GPUs than any host has on several, within one rack where enough runs did, and
    `crossing_permille` is then how long runs in several racks took beside these, by the medians of both.

    Wall time is in whole seconds, from the first GPU held to the last given back; a restart is part of it. `unfinished`
    are such runs that did not complete: no figure here counts them. Moments are microseconds UTC.
    """

    name: str
    gpus: int
    seconds: tuple[int, ...]
    restarted: int
    unfinished: int
    first_at: int
    last_at: int
    peaks: Peaks
    sku: str | None = None  # the kind of GPU; None: they held none
    crossing_permille: int | None = None

    @property
    def runs(self) -> int:
        """How many runs it stands on."""
        return len(self.seconds)

    @property
    def p10_seconds(self) -> int:
        """A tenth of the runs took no longer."""
        return self.percentile(_P10)

    @property
    def p50_seconds(self) -> int:
        """Half of the runs took no longer."""
        return self.percentile(_P50)

    @property
    def p90_seconds(self) -> int:
        """Nine tenths of the runs took no longer."""
        return self.percentile(_P90)

    def percentile(self, percent: int) -> int:
        """Return the wall time of the run at this rank: always one that was seen, as quantile_disc gives it."""
        return self.seconds[max(0, -(-percent * len(self.seconds) // 100) - 1)]


@dataclass(frozen=True, slots=True)
class NodeHolder:
    """A run that holds a part of one node: GPUs there, cores that it may use and memory that it used at the most.

    `until` is the end of the time that it asked for; None where nobody knows: it asked for none, or is over it.
    """

    run_id: str
    name: str
    gpus: int
    cores: float | None
    memory_bytes: int | None
    until: int | None


@dataclass(frozen=True, slots=True)
class StockNode:
    """One node of the inventory. None is not known, and never none; `gpus` of a node without any is 0.

    `price_micros_per_gpu_hour` is what a GPU-hour of it came to in the last day; None
    also where its GPUs are of several kinds. `is_up` is its scheduler's word.
    """

    node: str
    rack: str | None
    group: str | None
    cpu_cores: int | None
    memory_bytes: int | None
    local_nvme_bytes: int | None
    gpus: int
    gpus_free: int
    sku: str | None
    gpu_memory_bytes: int | None
    price_micros_per_gpu_hour: int | None
    is_up: bool
    holders: tuple[NodeHolder, ...]
    cores_busy: float | None = None  # of nodes without GPUs, where nobody says what holds them
    memory_busy_bytes: int | None = None

    @property
    def cores_free(self) -> float | None:
        """Cores that no holder may use; None where one of them may use nobody knows how many."""
        held = [holder.cores for holder in self.holders]
        if self.cpu_cores is None or any(cores is None for cores in held):
            return None
        return max(0.0, self.cpu_cores - sum(cores or 0.0 for cores in held) - (self.cores_busy or 0.0))

    @property
    def memory_free_bytes(self) -> int | None:
        """Memory that no holder was seen to use; None where of one of them it is not known."""
        held = [holder.memory_bytes for holder in self.holders]
        if self.memory_bytes is None or any(amount is None for amount in held):
            return None
        return max(0, self.memory_bytes - sum(amount or 0 for amount in held) - (self.memory_busy_bytes or 0))


class Ledger(Protocol):
    """Whoever can say all of it.

    Raises (of each method):
        UnseenError: there are too few runs of the name on that kind of GPU.
        LedgerError: the ledger is empty, or the server does not answer.
    """

    def history(self, name: str, gpus: int, sku: str | None = None) -> History:
        """Return what runs of a name with so many GPUs of a kind took; without `sku` of the one kind that there is."""

    def nodes(self) -> tuple[StockNode, ...]:
        """Return the nodes with what is free of them now."""

    def queue(self) -> tuple[QueuedRun, ...]:
        """Return the runs that wait for GPUs, by their scheduler's priority, then as they were submitted."""


@dataclass(frozen=True, slots=True)
class ServerLedger:
    """A running server. A key of a team reads the history of its own runs there, and no nodes."""

    address: str

    def history(self, name: str, gpus: int, sku: str | None = None) -> History:
        """Return what runs of a name with so many GPUs of a kind took."""
        asked = {"name": name, "gpus": gpus, **({} if sku is None else {"sku": sku})}
        try:
            document = ask_server_json(self.address, f"{HISTORY_PATH}?{urlencode(asked)}")
        except ConfigError as error:  # it has read the question, and has no answer
            raise UnseenError(str(error)) from error
        with of_this_version(self.address):
            history: History = typed(History, document)
            return history

    def nodes(self) -> tuple[StockNode, ...]:
        """Return the nodes with what is free of them now."""
        document = ask_server_json(self.address, NODES_PATH)
        with of_this_version(self.address):
            nodes: tuple[StockNode, ...] = typed(tuple[StockNode, ...], document.get("nodes"))
            return nodes

    def queue(self) -> tuple[QueuedRun, ...]:
        """Return the runs that wait for GPUs, by their scheduler's priority, then as they were submitted."""
        document = ask_server_json(self.address, NODES_PATH)
        with of_this_version(self.address):
            runs: tuple[QueuedRun, ...] = typed(tuple[QueuedRun, ...], document.get("queue"))
            return runs


LEAST_RUNS = 5  # fewer have no tenth: their P10 and P90 would be two runs, whatever they were
_MOST_RUNS = 200  # the newest: a job of last year was another job


@dataclass(frozen=True, slots=True)
class _RunCount:
    """How many runs of a name there are with so many GPUs of one kind, on one host or spread over several."""

    sku: str | None  # None: of several kinds, or of one that nobody told; or they held no GPU
    gpus: int
    is_spread: bool
    completed: int
    unfinished: int
    is_gang: bool = False  # more GPUs than any host has

    @property
    def is_told(self) -> bool:
        """Whether it is known on what they ran: one host (a gang: several), with GPUs of one kind or none."""
        return self.is_spread is self.is_gang and (self.sku is not None or not self.gpus)


@dataclass(frozen=True, slots=True)
class StoreLedger:
    """A store on this machine, as a plan asks it."""

    session: Session

    def history(self, name: str, gpus: int, sku: str | None = None) -> History:
        """Return what runs of a name with so many GPUs of a kind took."""
        return read_history(self.session, name, gpus, sku)

    def nodes(self) -> tuple[StockNode, ...]:
        """Return the nodes with what is free of them now."""
        return read_stock(self.session, ledger_end(self.session))

    def queue(self) -> tuple[QueuedRun, ...]:
        """Return the runs that wait for GPUs, by their scheduler's priority, then as they were submitted."""
        return read_queue(self.session, ledger_end(self.session))


def read_history(session: Session, name: str, gpus: int, sku: str | None = None) -> History:
    """Read what runs of a name with so many GPUs of a kind took; without `sku` of the one kind that there is.

    Raises:
        UnseenError: there are too few to say, or of several kinds; the sentence says what there is.
    """
    sizes, newest, cores, largest = statements("capacity/planner/history.sql")
    ((most,),) = session.rows(largest)
    known = [replace(_RunCount(*row), is_gang=gpus > (most or gpus)) for row in session.rows(sizes, {"name": name})]
    seen = _seen_on(known, name, gpus, sku)
    asked = {"name": name, "gpus": gpus, "sku": seen.sku, "most": _MOST_RUNS, "spread": seen.is_gang}
    runs, crossing = _within_racks(session.rows(newest, asked))
    first, last = min(run[1] for run in runs), max(run[2] for run in runs)
    ids = [run[0] for run in runs]
    used = [milli / 1000 for _, milli in session.rows(cores, {"runs": ids})]
    reading = SiteQuery(session, first, last)
    on_gpus, on_hosts = reading.gpu_peaks(), reading.host_peaks()
    return History(
        name,
        gpus,
        _seconds(runs),
        sum(run[3] > 1 for run in runs),
        seen.unfinished,
        first,
        last,
        Peaks(
            max(used, default=None),
            max((on_hosts[run] for run in ids if run in on_hosts), default=None),
            max((on_gpus[run] for run in ids if run in on_gpus), default=None),
        ),
        seen.sku,
        crossing,
    )


_Run = Sequence[Any]  # id, from when to when, attempts, racks


def _seconds(runs: Sequence[_Run]) -> tuple[int, ...]:
    return tuple(sorted(round((run[2] - run[1]) / SECOND_US) for run in runs))


def _within_racks(runs: Sequence[_Run]) -> tuple[Sequence[_Run], int | None]:
    """Return the runs that tell how long a job takes, and how much longer in several racks: both where both are known.

    Where too few ran within a rack all of them tell, whatever it was that they crossed.
    """
    within = [run for run in runs if run[4] == 1]
    across = [run for run in runs if (run[4] or 0) > 1]
    if min(len(within), len(across)) < LEAST_RUNS:
        return (within if len(within) >= LEAST_RUNS else runs), None
    medians = [_seconds(each)[(len(each) - 1) // 2] for each in (across, within)]
    return within, max(PERMILLE, -(-medians[0] * PERMILLE // max(1, medians[1])))


def _seen_on(known: Sequence[_RunCount], name: str, gpus: int, sku: str | None) -> _RunCount:
    """Return the runs that say how long a job of so many GPUs takes on a kind; those on other kinds never do.

    Raises:
        UnseenError: there are none, too few, or of several kinds.
    """
    called = f"duration: history: {plain(name)}{f' on {plain(sku)}' if sku is not None else ''}"
    there = [one for one in known if one.is_told and one.gpus == gpus and (sku is None or _is_of(one, sku))]
    enough = [one for one in there if one.completed >= LEAST_RUNS]
    there = (enough if sku is None else [one for one in there if one.sku == sku]) or there
    if len(there) == 1 and there[0] in enough:
        return there[0]
    if len(there) > 1 and enough:
        kinds = " and ".join(sorted(plain(one.sku or "") for one in there))
        raise UnseenError(
            f"{called}: its runs with {_gpus(gpus)} were on {kinds}; choose one, as in sku={there[0].sku}"
        )
    if not any(one.completed for one in known):
        raise UnseenError(f"{called}: the ledger has no completed run of this name; give the task's duration")
    raise UnseenError(f"{called}: {_too_few(known, sum(one.completed for one in there), gpus, sku)}")


def _is_of(one: _RunCount, sku: str) -> bool:
    return one.sku is not None and means(sku, one.sku)


def _too_few(known: Sequence[_RunCount], completed: int, gpus: int, sku: str | None) -> str:
    seen = ", ".join(f"{counted(one.completed, 'run')} {_where(one)}" for one in known if one.completed)
    enough = {
        one.gpus for one in known if one.is_told and one.completed >= LEAST_RUNS and (sku is None or _is_of(one, sku))
    }
    way_out = f"set gpu: {next(iter(enough))}, or " if len(enough) == 1 and gpus not in enough else ""
    return (
        f"{counted(completed, 'run')} with {_gpus(gpus)} completed, and a spread needs {LEAST_RUNS} "
        f"(the ledger has {seen}); {way_out}give the task's duration"
        + (f" there, as in {{history: NAME, {plain(sku)}: 25 h}}" if sku is not None else "")
    )


def _where(one: _RunCount) -> str:
    of = f" of {plain(one.sku)}" if one.sku is not None else " of several kinds or one that is not known"
    return f"with {_gpus(one.gpus)}{of if one.gpus else ''}{' over several hosts' if one.is_spread else ''}"


def _gpus(count: int) -> str:
    return counted(count, "GPU") if count else "no GPU"


def read_stock(session: Session, now_us: int) -> tuple[StockNode, ...]:
    """Read the nodes of the day that ends with the newest hour of the ledger, by name."""
    start = now_us - DAY_US
    reading = SiteQuery(session, start, now_us)
    without_gpus, limits, costs = statements("capacity/planner/stock.sql")
    until = dict(session.rows(limits, {"end": now_us}))
    on = _holders(reading.runs(), until, now_us)
    prices = dict(session.rows(costs, {"start": start, "end": now_us}))
    nodes = [_with_gpus(host, prices.get(host.node), on.get(host.node, ())) for host in reading.hosts().values()]
    for node, rack, group, cores, memory, nvme, busy, used in session.rows(
        without_gpus, {"start": start, "end": now_us}
    ):
        cores_busy = None if busy is None or cores is None else busy * cores
        nodes.append(
            StockNode(node, rack, group, cores, memory, nvme, 0, 0, None, None, None, True, (), cores_busy, used)
        )
    return tuple(sorted(nodes, key=lambda one: one.node))


def _with_gpus(host: Host, price: int | None, holders: tuple[NodeHolder, ...]) -> StockNode:
    return StockNode(
        host.node,
        host.rack,
        host.node_group,
        host.cpu_cores,
        host.memory_bytes,
        host.local_nvme_bytes,
        host.gpus,
        host.gpus_free_now,
        host.sku,
        host.gpu_memory_bytes,
        price,
        host.state in (None, "up"),
        holders,
    )


def _holders(runs: Mapping[str, Placed], until: Mapping[str, int], now_us: int) -> dict[str, tuple[NodeHolder, ...]]:
    """Return by node the runs that have not ended, with their share of what each may use on all of its hosts."""
    found: dict[str, list[NodeHolder]] = defaultdict(list)
    for run in runs.values():
        if not run.is_open:
            continue
        cores = None if run.cores is None else run.cores / len(run.hosts)
        for node, gpus in zip(run.hosts, run.gpus_on, strict=True):
            end = until.get(run.run_id)
            ends = end if end is not None and end > now_us else None  # over its limit: nobody knows for how long
            found[node].append(NodeHolder(run.run_id, run.called, gpus, cores, run.host_bytes, ends))
    return {node: tuple(of) for node, of in found.items()}
