"""What a plan takes of the ledger: durations of recurring jobs, and nodes with what is free of them."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from analyzer.capacity.planner.from_ledger import LeftOut, asks_ledger, look_up, offered
from analyzer.capacity.planner.ledger import (
    LEAST_RUNS,
    NodeHolder,
    ServerLedger,
    StockNode,
    StoreLedger,
    read_history,
    read_stock,
)
from analyzer.capacity.planner.problem import Network, Node, Task
from analyzer.capacity.planner.solve import solve
from analyzer.capacity.planner.task_file import TaskFile, read_tasks
from analyzer.errors import ConfigError
from analyzer.interfaces.questions.registry import answer
from analyzer.ledger.coverage import ledger_end
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.store.database import Store
from collector.store.session import Session
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.capacity.planner_small_site import GB, SIX, fill
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, SECOND, Fleet
from tests.dashboards.serving import served

SKU = "H100-80GB"


@pytest.fixture(scope="module")
def store() -> Store:
    """Return the small site's ledger."""
    fleet = Fleet()
    fill(fleet)
    return fleet.store


@pytest.fixture(scope="module")
def session(store: Store) -> Iterator[Session]:
    """Yield a session on it."""
    with store.session() as opened:
        yield opened


def test_a_recurring_job_takes_what_its_completed_runs_took(session: Session) -> None:
    """Ranks of runs that were seen, and the run that failed counts as none of them."""
    history = read_history(session, "nightly", 1)
    assert history.seconds == tuple(600 * tens for tens in SIX)
    assert (history.p10_seconds, history.p50_seconds, history.p90_seconds) == (600, 1800, 3600)
    assert (history.runs, history.unfinished, history.restarted) == (6, 1, 0)


def test_its_peaks_are_the_most_that_any_run_used(session: Session) -> None:
    """They are what a task file may start from where nobody knows what the job needs."""
    peaks = read_history(session, "nightly", 1).peaks
    assert (peaks.cores, peaks.memory_bytes, peaks.gpu_memory_bytes) == (6.0, 6 * GB, 30 * GB)


def test_too_few_runs_are_a_sentence_and_no_guess(session: Session) -> None:
    """It names what there is of the name, and the size that would do."""
    with pytest.raises(
        ConfigError, match=f"3 runs with 2 GPUs completed, and a spread needs {LEAST_RUNS}.*set gpu: 1,"
    ):
        read_history(session, "nightly", 2)
    with pytest.raises(ConfigError, match="no completed run of this name"):
        read_history(session, "never-seen", 1)


def test_a_node_is_known_with_what_is_free_of_it(session: Session) -> None:
    """Held GPUs are not free, and a node without GPUs is known by its agent alone."""
    stock = {one.node: one for one in read_stock(session, ledger_end(session))}
    assert sorted(stock) == ["c0", "g0", "g1", "g2"]
    assert (stock["g0"].gpus_free, stock["g0"].holders, stock["g0"].cores_free) == (2, (), 32.0)
    assert (stock["g1"].gpus_free, stock["g1"].holders[0].until) == (0, MONDAY + 50 * HOUR)
    assert stock["g2"].holders[0].until is None
    assert (stock["c0"].gpus, stock["c0"].cores_free, stock["c0"].memory_free_bytes) == (0, 12.0, 54 * GB)
    assert (stock["c0"].local_nvme_bytes, stock["g0"].price_micros_per_gpu_hour) == (None, None)


def test_a_held_node_comes_whole_when_its_time_limit_ends(session: Session) -> None:
    """Until then it is not offered without its GPUs: a task that must stay off GPU nodes would land on it."""
    now = ledger_end(session)
    nodes, left_out = offered(read_stock(session, now), (), now)
    by_name = {node.name: node for node in nodes}
    assert by_name["g1"] == Node("g1", 32, 256 * GB, 2, 80 * GB, 4000 * GB, "r1", "train", None, 26 * 3600, SKU)
    assert left_out == (LeftOut("g2", "held by open with no known end"),)


def test_a_group_that_nobody_is_in_is_refused(session: Session) -> None:
    """Else the plan would say that no node will do, which is not what is wrong."""
    stock = read_stock(session, ledger_end(session))
    assert [node.name for node in offered(stock, ("train",), MONDAY + DAY)[0]] == ["g0", "g1"]
    with pytest.raises(ConfigError, match="no node is in group 'trian'; the ledger knows other, train"):
        offered(stock, ("trian",), MONDAY + DAY)


def test_what_a_file_leaves_to_the_ledger_is_put_in_its_place(session: Session) -> None:
    """A task whose duration is said keeps it, and the runs behind the other are there to draw from."""
    tasks = (Task("prep", 4, GB, None, gpus=1, history="nightly"), Task("say", 1, GB, None))
    file = TaskFile(tasks, None, Network(), MONDAY + DAY, None)
    assert asks_ledger(file)
    looked = look_up(StoreLedger(session), file)
    prep, said = looked.file.tasks
    ((kind, on_h100),) = prep.durations
    assert (prep.duration, kind) == (None, SKU)
    assert (on_h100.p50_seconds, on_h100.runs, said.duration, said.durations) == (1800, 6, None, ())
    ((name, of, history),) = looked.runs_of
    assert (name, of, history.sku, history.seconds) == ("prep", SKU, SKU, tuple(600 * tens for tens in SIX))
    assert looked.file.nodes is not None
    assert len(looked.file.nodes) == 3


def test_a_node_of_which_something_is_not_known_is_left_out_with_the_reason() -> None:
    """None is never 0, and never as much as there is."""
    holder = NodeHolder("r", "asr", 1, None, 4 * GB, None)
    partly = StockNode("n1", None, None, 8, 64 * GB, None, 2, 1, None, None, None, True, (holder,))
    blind = StockNode("n2", None, None, None, None, None, 0, 0, None, None, None, True, ())
    down = StockNode("n3", None, None, 8, 64 * GB, None, 0, 0, None, None, None, False, ())
    kept = StockNode("n4", None, None, 8, 64 * GB, None, 2, 0, None, None, None, True, ())
    nodes, left_out = offered([partly, blind, down, kept], (), 0)
    assert nodes == ()
    assert [said.why for said in left_out] == [
        "how much of its cores and memory asr may use is not known",
        "its cores or its memory are not known",
        "its scheduler says that it is not up",
        "none of its GPUs is free, and the ledger knows no holder: drained, kept or broken",
    ]


def test_time_that_has_passed_does_not_count_as_held(session: Session) -> None:
    """A plan that starts after the limit has the node from its beginning."""
    nodes, _ = offered(read_stock(session, ledger_end(session)), ("train",), MONDAY + 51 * HOUR + SECOND)
    assert [node.available_from_seconds for node in nodes] == [0, 0]


def test_a_server_says_the_same_as_its_store(store: Store, session: Session) -> None:
    """A plan made from afar stands on the same figures; what the server refuses is its own sentence."""
    config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), Settings(), analyze_seconds=None)
    with served(create_server(config, store)) as client:
        afar, here = ServerLedger(str(client.base_url)), StoreLedger(session)
        assert afar.nodes() == here.nodes()
        assert afar.history("nightly", 1) == here.history("nightly", 1, "H100") == afar.history("nightly", 1, SKU)
        with pytest.raises(ConfigError, match="3 runs with 2 GPUs completed"):
            afar.history("nightly", 2)


@pytest.fixture(scope="module")
def gangs() -> Store:
    """Return four hosts of two GPUs in two racks: five runs of four GPUs within a rack, and six across, 10% slower."""
    fleet = Fleet()
    for node, rack in (("n0", "r1"), ("n1", "r1"), ("n2", "r2"), ("n3", "r2")):
        names = [f"{node}-{index}" for index in range(2)]
        fleet.own(node, names)
        host = {"node": node, "started_at": MONDAY, "ended_at": MONDAY + 1, "rack": rack, "sku": SKU}
        fleet.add("inventory", [host | {"gpu_uuid": name} for name in names])
        fleet.add("inventory", [host | {"sku": None, "cpu_cores": 32, "host_memory_bytes": 256 * GB}])
        for name in names:
            fleet.sample(node, name, MONDAY, MONDAY + DAY, every=600 * SECOND)
    for number in range(11):
        pair = ("n0", "n1") if number < 5 else ("n1", "n2")
        start, seconds = MONDAY + number * 2 * HOUR, 3600 + 60 * (number % 5) if number < 5 else 4092
        for node in pair:
            held = [f"{node}-0", f"{node}-1"]
            end = start + seconds * SECOND
            fleet.hold(f"slurm/a/{number}", node, held, start, end, name="pretrain", exit_status="completed")
    fleet.analyze()
    return fleet.store


def test_a_gang_takes_what_its_runs_on_several_hosts_took(gangs: Store) -> None:
    """Within a rack its runs there tell, and across racks as much longer as those took."""
    with gangs.session() as session:
        history = read_history(session, "pretrain", 4)
        assert (history.seconds, history.crossing_permille) == ((3600, 3660, 3720, 3780, 3840), 1100)
        told = answer(Reader(session, Settings()), Request("history", "pretrain", gpus=4, sku=SKU))
        assert "in several racks 1.10 times as long" in " ".join(told.split())
        task = Task("pretrain", 4, GB, None, gpus=4, history="pretrain")
        file = TaskFile(
            (task, replace(task, name="said", crossing_permille=(1000, 1500))), None, Network(), MONDAY + DAY, None
        )
        looked = look_up(StoreLedger(session), file)
        assert [one.crossing_permille for one in looked.file.tasks] == [(1100, 1100), (1000, 1500)]
        with pytest.raises(ConfigError, match="11 runs with 4 GPUs of H100-80GB over several hosts"):
            read_history(session, "pretrain", 2)


QUEUE = """
start: 2025-11-11T00:00
queue: true
nodes: inventory
"""


@pytest.fixture(scope="module")
def queued() -> Store:
    """Return the small site's ledger with five runs that wait, one that was withdrawn and one that began."""
    fleet = Fleet()
    base = {"scheduler": "slurm", "submitted_at": MONDAY + 20 * HOUR, "queue": "gpu", "account": "vision"}
    waits = [
        {"run_id": "slurm/a/21", "name": "nightly", "requested_gpus": 1},
        {"run_id": "slurm/a/22", "name": "big", "requested_gpus": 2, "time_limit_seconds": 7200.0, "priority": 9.0},
        {"run_id": "slurm/a/23", "name": "blind", "requested_gpus": 1},
        {"run_id": "slurm/a/24", "name": "huge", "requested_gpus": 64, "time_limit_seconds": 7200.0},
        {"run_id": "slurm/a/25", "name": "array", "requested_gpus": 1, "time_limit_seconds": 60.0},
        {"run_id": "slurm/a/25_1", "name": "array", "requested_gpus": 1, "time_limit_seconds": 60.0},
        {"run_id": "slurm/a/26", "name": "gone", "requested_gpus": 1, "ended_at": MONDAY + 21 * HOUR},
        {"run_id": "slurm/a/long", "name": "long", "requested_gpus": 2},
    ]
    fleet.add("allocations", [base | one for one in waits])
    fill(fleet)
    return fleet.store


def test_what_waits_is_planned_without_a_file_of_it(queued: Store) -> None:
    """The scheduler's order first; as long as such runs took, else the time limit; what cannot be placed is told."""
    with queued.session() as session:
        file = read_tasks(QUEUE, MONDAY + DAY, "UTC", "queue.yaml")
        looked = look_up(StoreLedger(session), file)
    assert [(task.name, task.gpus) for task in looked.file.tasks] == [
        ("big 22", 2),
        ("nightly 21", 1),
        ("array 25_1", 1),
    ]
    big, nightly, _ = looked.file.tasks
    assert big.duration is not None
    assert (big.duration.p50_seconds, [duration.p50_seconds for _, duration in nightly.durations]) == (7200, [1800])
    why = {one.node: one.why for one in looked.left_out if one.why.startswith("it waits")}
    assert why["blind 23"] == "it waits, has no time limit, and no runs of its name say how long it takes"
    assert LeftOut("queue", "cores and memory of 3 runs that wait are not known") in looked.left_out
    assert why["huge 24"].startswith("it waits, and none of these nodes will do: ")
    answer = solve(looked.file.problem(), 1)
    assert [one.task for one in answer.plan.placements if one.node == "g0" and not one.start_seconds] == ["big 22"]


def test_a_file_has_tasks_beside_the_queue(queued: Store) -> None:
    """One of the same name keeps it; without any run that waits and any task there is no plan."""
    tasks = "tasks: {big 22: {cpus: 1, memory: 1 GB, gpu: 1, duration: 1 h}}"
    with queued.session() as session:
        file = read_tasks(QUEUE + tasks, MONDAY + DAY, "UTC", "queue.yaml")
        names = [task.name for task in look_up(StoreLedger(session), file).file.tasks]
    assert names == ["big 22", "slurm/a/22", "nightly 21", "array 25_1"]
    with pytest.raises(ConfigError, match=r"queue.*must be true or false"):
        read_tasks(QUEUE.replace("true", "all") + tasks, MONDAY + DAY, "UTC", "queue.yaml")


def test_a_ledger_where_nobody_waits_has_no_queue_to_plan(session: Session) -> None:
    """It says so, and is no empty plan."""
    with pytest.raises(ConfigError, match="queue: no run waits that a plan could place, and the file has no tasks"):
        look_up(StoreLedger(session), read_tasks(QUEUE, MONDAY + DAY, "UTC", "queue.yaml"))


def test_a_server_tells_its_queue_too(queued: Store) -> None:
    """A plan from afar knows what waits as one beside the store does."""
    config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), Settings(), analyze_seconds=None)
    with served(create_server(config, queued)) as client, queued.session() as session:
        assert ServerLedger(str(client.base_url)).queue() == StoreLedger(session).queue() != ()


@pytest.mark.parametrize("what", ["history", "nodes"])
def test_people_can_read_what_a_plan_would_take(session: Session, what: str) -> None:
    """Before they rest a plan on it, of one kind of GPU where there are several."""
    text = answer(Reader(session, Settings()), Request(what, "nightly", gpus=1, sku=SKU if what == "history" else None))
    assert ("6 runs with 1 GPU" if what == "history" else "4 nodes, 2 GPUs free") in text
    assert all(len(line) <= 80 for line in text.splitlines())
