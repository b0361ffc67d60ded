"""A plan tells of each kind of GPU what was seen or said of that kind, and of no other."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.capacity.planner.amounts import means
from analyzer.capacity.planner.facts import PlanContext, plan_facts
from analyzer.capacity.planner.from_ledger import look_up
from analyzer.capacity.planner.ledger import LEAST_RUNS, StoreLedger, read_history, read_stock
from analyzer.capacity.planner.problem import Duration, Node, Problem, ProblemError, Task, TaskFileError, UnseenError
from analyzer.capacity.planner.proposal import Placed, Proposal
from analyzer.capacity.planner.simulation import simulate
from analyzer.capacity.planner.solve import solve
from analyzer.capacity.planner.tables import unjudged_rows
from analyzer.capacity.planner.task_file import read_tasks
from analyzer.capacity.planner.validator import validate
from analyzer.errors import ConfigError
from analyzer.interfaces.cli.planner import plan
from analyzer.ledger.coverage import ledger_end
from analyzer.settings.settings import Settings
from bench.plans.proposed import proposal_of
from collector.store.session import Session
from tests.analyzer.capacity.planner_answers import of_ledger
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet, priced
from tests.campaign import examples

GB = 10**9
KINDS = ("H100-80GB", "A100-80GB", "L4-24GB")
JOBS = {f"all-but-{kind}": tuple(one for one in KINDS if one != kind) for kind in KINDS} | {"some": KINDS}


@pytest.fixture(scope="module")
def seen() -> dict[tuple[str, str], list[int]]:
    """Return the wall times that the ledger is filled with, by job and kind: whole minutes, none of two kinds alike."""
    random = Random(7)
    return {
        (job, kind): [(3 * random.randint(1, 12) + KINDS.index(kind)) * 60 for _ in range(LEAST_RUNS + 1)]
        for job, kinds in JOBS.items()
        for kind in kinds
    }


@pytest.fixture(scope="module")
def session(seen: dict[tuple[str, str], list[int]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Yield a ledger of three kinds of GPU, on each of which all jobs but one ran, and of a host of two kinds."""
    fleet = Fleet()
    with fleet.together():
        for kind in KINDS:
            _host(fleet, f"n-{kind}", {f"{kind}-gpu": kind})
            at = MONDAY
            for job, of in JOBS.items():
                for number, seconds in enumerate(seen[job, kind] if kind in of else ()):
                    run, end = f"slurm/a/{job}.{kind}.{number}", at + seconds * 1_000_000
                    fleet.hold(run, f"n-{kind}", [f"{kind}-gpu"], at, end, name=job, exit_status="completed")
                    at = end + MINUTE
        _host(fleet, "n-mixed", {"mixed-0": KINDS[0], "mixed-1": KINDS[1]})
        for number in range(LEAST_RUNS):
            at = MONDAY + number * HOUR
            gpus = ["mixed-0", "mixed-1"]
            fleet.hold(f"slurm/a/m{number}", "n-mixed", gpus, at, at + MINUTE, name="mixed", exit_status="completed")
    prices = {"H100_80GB": 5.0, "A100_80GB": 1.0, "L4_24GB": 0.5}
    fleet.analyze(now=MONDAY + DAY, settings=priced(tmp_path_factory.mktemp("prices"), **prices))
    with fleet.store.session() as opened:
        yield opened


def _host(fleet: Fleet, node: str, skus: dict[str, str], **more: object) -> None:
    host = {"node": node, "started_at": MONDAY, "ended_at": MONDAY + 1, "cpu_cores": 32, "host_memory_bytes": 256 * GB}
    fleet.add("inventory", [host | more])
    chip = {"node": node, "started_at": MONDAY, "ended_at": MONDAY + 1, "memory_bytes": 80 * GB}
    fleet.add("inventory", [chip | {"gpu_uuid": gpu, "sku": sku} for gpu, sku in skus.items()])
    for gpu, sku in skus.items():
        fleet.own(node, [gpu], sku)
        used = (1 + KINDS.index(sku)) * GB
        fleet.sample(node, gpu, MONDAY, MONDAY + DAY, every=10 * MINUTE, memory_used_bytes=used)


def file_of(tasks: str, nodes: Sequence[str] | None = None, more: str = "") -> str:
    """Return a task file of these tasks, on nodes of these kinds or on the inventory."""
    said = "inventory" if nodes is None else f"{{{', '.join(_node(kind) for kind in nodes)}}}"
    return f"start: 2025-11-11T01:00\nnodes: {said}\n{more}tasks:\n{tasks}"


def _node(kind: str) -> str:
    return f"{kind}: {{cpus: 32, memory: 256 GB, gpus: 1, hbm: 80 GB, price_per_hour: 1, sku: {kind}}}"


def task_of(job: str, duration: str) -> str:
    """Return a task of one GPU."""
    return f"  {job}: {{cpus: 4, memory: 1 GB, gpu: 1, duration: {duration}}}\n"


JOBS_NODES_AND_SAID = (
    st.lists(st.sampled_from([*JOBS]), min_size=1, unique=True),
    st.one_of(st.none(), st.lists(st.sampled_from(KINDS), min_size=1, unique=True)),
    st.dictionaries(st.sampled_from(KINDS), st.integers(1, 50), max_size=2),
)


@pytest.mark.parametrize("count", examples(100, here=10))
def test_no_duration_is_without_a_source_of_its_kind(
    session: Session, seen: dict[tuple[str, str], list[int]], count: int
) -> None:
    """Each task takes what its runs took on its node's kind, else what the file says of that kind, or it is refused."""

    def of(jobs: list[str], nodes: list[str] | None, said: dict[str, int]) -> None:
        _has_its_sources(session, seen, jobs, nodes, said)

    settings(max_examples=count)(given(*JOBS_NODES_AND_SAID)(of))()


def _has_its_sources(
    session: Session,
    seen: dict[tuple[str, str], list[int]],
    jobs: list[str],
    nodes: list[str] | None,
    said: dict[str, int],
) -> None:
    of_file = "".join(f", {kind}: {hours} h" for kind, hours in said.items())
    text = file_of("".join(task_of(job, f"{{history: {job}{of_file}}}") for job in jobs), nodes)
    there = set(nodes or KINDS)
    homeless = [job for job in jobs if not there & {*JOBS[job], *said}]
    if homeless:
        with pytest.raises((UnseenError, ProblemError)):
            look_up(StoreLedger(session), read_tasks(text, MONDAY + DAY)).file.problem()
        return
    looked = look_up(StoreLedger(session), read_tasks(text, MONDAY + DAY))
    problem = looked.file.problem()
    answer = solve(problem, 0.2, solvers=("olb", "heft"))
    for one in (answer.plan, *answer.compared):
        for placed in one.placements:
            kind = problem.node_by_name[placed.node].sku
            assert kind in {*JOBS[placed.task], *said}
            runs = sorted(seen.get((placed.task, kind or ""), ()))
            p50 = runs[-(-len(runs) // 2) - 1] if runs else said[kind or ""] * 3600
            assert placed.end_seconds - placed.start_seconds == p50
            assert looked.samples(problem, one).get(placed.task, ()) == tuple(runs)
        assert validate(problem, proposal_of(one)).is_valid


def test_cheaper_gpus_that_a_job_never_saw_are_refused(session: Session) -> None:
    """The solver would else prefer them: the time of another kind for a fifth of the money."""
    looked = look_up(StoreLedger(session), read_tasks(file_of(task_of("prep", "{history: all-but-A100-80GB}")), 0))
    problem = looked.file.problem()
    answer = solve(problem, 0.2)
    assert answer.plan.by_task["prep"].node in ("n-H100-80GB", "n-L4-24GB")
    verdict = validate(problem, Proposal((Placed("prep", "n-A100-80GB", 0),)))
    assert (verdict.is_valid, verdict.plan) == (False, None)
    assert "of A100-80GB, and how long it takes there is not known; place it on" in verdict.broken[0].text


def test_a_kind_that_the_file_names_takes_what_the_file_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`H100` is what people write of an H100-80GB, and what they leave out is asked for."""
    file = tmp_path / "jobs.yaml"
    file.write_text(file_of(task_of("prep", "{H100: 10 h, A100-80GB: {p10: 20 h, p50: 25 h, p90: 30 h}}"), KINDS))
    assert plan([str(file), "--width", "400", "--plain", "--seconds", "0.2"]) == 0
    told = capsys.readouterr().out
    assert "prep is kept off 1 node of L4-24GB: how long it takes there is not known" in told
    assert "Estimated finish Tue 11:00" in told
    file.write_text(file_of(task_of("prep", "{H100: 10 h}"), KINDS[1:]))
    with pytest.raises(
        ProblemError, match=r"A100-80GB is of A100-80GB, and how long the task takes is known only on H100.*Give in"
    ):
        plan([str(file)])


@pytest.mark.parametrize(
    ("duration", "told"),
    [
        ("{A100: 5 h}", "A100 may be A100-40GB or A100-80GB; give a duration for each"),
        ("{p50: 5 h}", "p10 is missing"),
        ("{history: some, H100: never}", "H100"),
        ("{}", "its duration is not known"),
    ],
)
def test_a_duration_that_could_be_of_two_kinds_is_refused(duration: str, told: str) -> None:
    """An A100 of 40 GB is another GPU than one of 80 GB."""
    with pytest.raises(ConfigError, match=re.escape(told)):
        read_tasks(file_of(task_of("prep", duration), ("A100-40GB", "A100-80GB")), 0).problem()


def test_impossible_is_not_told_of_a_kind_that_nobody_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The proof is of GPUs whose time is known: on others it may well be done by then."""
    file = tmp_path / "jobs.yaml"
    file.write_text(file_of(task_of("prep", "{L4: 40 h}"), KINDS))
    assert plan([str(file), "--width", "400", "--plain", "--finish-by", "in 10 h", "--check"]) == 1
    told = capsys.readouterr().out
    assert "Impossible: earliest" in told
    assert "That is without prep on H100-80GB, A100-80GB: how long that takes is not known." in told


def test_a_kind_needs_a_gpu() -> None:
    """A task without one has no kind that its duration could be of."""
    text = file_of("  prep: {cpus: 4, memory: 1 GB, gpu: none, duration: {H100: 5 h}}\n", KINDS)
    with pytest.raises(ProblemError, match="needs gpu: how many"):
        read_tasks(text, 0)


def test_a_node_that_does_not_say_its_kind_gets_no_job_by_history(session: Session) -> None:
    """It is asked for: nobody knows whether the runs were on such GPUs."""
    text = file_of(task_of("prep", "{history: some}"), KINDS[:1]).replace(", sku: H100-80GB", "")
    with pytest.raises(UnseenError, match="no node says which kind it has; set sku of the nodes, as in sku: H100-80GB"):
        look_up(StoreLedger(session), read_tasks(text, 0))


def test_a_host_of_two_kinds_is_of_none(session: Session) -> None:
    """Its runs tell of neither kind, and no run of either kind tells of it."""
    stock = {one.node: one for one in read_stock(session, ledger_end(session))}
    assert (stock["n-mixed"].sku, stock["n-mixed"].price_micros_per_gpu_hour) == (None, None)
    assert (stock["n-L4-24GB"].sku, stock["n-L4-24GB"].price_micros_per_gpu_hour) == ("L4-24GB", 500_000)
    with pytest.raises(UnseenError, match=r"5 runs with 2 GPUs of several kinds or one that is not known"):
        read_history(session, "mixed", 2, KINDS[0])


def test_a_node_costs_what_it_costs_and_not_the_mean_of_all_clouds(tmp_path: Path) -> None:
    """The same GPU is paid at two prices in two clouds; a mean of them is the price of neither."""
    rows = [
        f'[[price]]\nsku = "{KINDS[0]}"\npurchase_option = "any"\nusd_per_gpu_hour = {usd}\nnode_group = "{group}"\n'
        'from = 2020-01-01\nsource = "contract"\nas_of = 2025-11-01\n'
        for group, usd in (("east", 3), ("west", 9))
    ]
    (tmp_path / "prices.toml").write_text("".join(rows))
    fleet = Fleet()
    for group in ("east", "west"):
        _host(fleet, group, {f"{group}-gpu": KINDS[0]}, node_group=group)
    fleet.analyze(settings=Settings(prices=tmp_path / "prices.toml"))
    with fleet.store.session() as opened:
        stock = read_stock(opened, ledger_end(opened))
    assert [one.price_micros_per_gpu_hour for one in stock] == [3_000_000, 9_000_000]


def test_a_job_of_several_kinds_is_asked_of_which(session: Session) -> None:
    """Mixed into one spread they would be a time that no GPU takes."""
    with pytest.raises(UnseenError, match=r"were on A100-80GB and H100-80GB and L4-24GB; choose one, as in sku="):
        read_history(session, "some", 1)
    assert read_history(session, "some", 1, "H100").sku == "H100-80GB"


def test_memory_in_use_is_told_of_its_own_kind(session: Session) -> None:
    """It is what people start a task's figures from."""
    used = [read_history(session, "some", 1, kind).peaks.gpu_memory_bytes for kind in KINDS]
    assert used == [GB, 2 * GB, 3 * GB]


def test_runs_over_several_hosts_tell_nothing_of_one() -> None:
    """What GPUs of two hosts did over a network, those of one do in another time."""
    fleet = Fleet()
    for node in ("a", "b"):
        _host(fleet, node, {f"{node}-{number}": KINDS[0] for number in range(2)})
    for number in range(LEAST_RUNS):
        at, run = MONDAY + number * HOUR, f"slurm/a/{number}"
        for node in ("a", "b"):
            fleet.hold(run, node, [f"{node}-0"], at, at + MINUTE, name="wide", exit_status="completed")
    fleet.analyze()
    with fleet.store.session() as opened, pytest.raises(UnseenError, match=r"0 runs with 2 GPUs .* over several hosts"):
        read_history(opened, "wide", 2, KINDS[0])


def test_a_run_on_a_gpu_of_no_known_kind_is_of_none() -> None:
    """Half of its GPUs may be of any kind: what is known of the other half is not told of all."""
    fleet = Fleet()
    _host(fleet, "a", {"a-0": KINDS[0]})
    fleet.own("a", ["a-1"], sku=None)  # type: ignore[arg-type]  # nobody told
    fleet.sample("a", "a-1", MONDAY, MONDAY + DAY, every=10 * MINUTE)
    for number in range(LEAST_RUNS):
        at = MONDAY + number * HOUR
        fleet.hold(f"slurm/a/{number}", "a", ["a-0", "a-1"], at, at + MINUTE, name="half", exit_status="completed")
    fleet.analyze()
    with fleet.store.session() as opened, pytest.raises(UnseenError, match="of several kinds or one that is not known"):
        read_history(opened, "half", 2, KINDS[0])


def test_a_host_is_told_the_memory_of_the_gpus_that_it_has() -> None:
    """What it had before it was rebuilt was of another kind."""
    fleet = Fleet()
    _host(fleet, "a", {"new": KINDS[0]})
    old = {"node": "a", "started_at": MONDAY - DAY, "ended_at": MONDAY - DAY + 1, "memory_bytes": 40 * GB}
    fleet.add("inventory", [old | {"gpu_uuid": "old", "sku": "A100-40GB"}])
    fleet.analyze()
    with fleet.store.session() as opened:
        (host,) = read_stock(opened, ledger_end(opened))
    assert (host.sku, host.gpu_memory_bytes) == (KINDS[0], 80 * GB)


@pytest.mark.parametrize("solvers", [("olb",), ("heft",), ("random_heft", "heft"), ("cp_sat", "heft")])
def test_every_solver_counts_a_task_as_long_as_it_takes_there(solvers: tuple[str, ...]) -> None:
    """Two kinds, one of them twice as fast; the best plan has the long task on it, and the validator agrees."""
    nodes = (
        Node("fast", 8, GB, gpus=1, sku="H100-80GB", price_micros_per_hour=4_000_000),
        Node("slow", 8, GB, gpus=1, sku="L4-24GB", price_micros_per_hour=1_000_000),
    )
    long, short = (
        (("H100-80GB", Duration.of(3600)), ("L4-24GB", Duration.of(7200))),
        (("H100-80GB", Duration.of(1800)), ("L4-24GB", Duration.of(3600))),
    )
    tasks = (
        Task("long", 1, 0, None, gpus=1, durations=long),
        Task("short", 1, 0, None, gpus=1, durations=short, deadline_seconds=3600),
    )
    problem = Problem(tasks, nodes, deadline_seconds=7200)
    answer = solve(problem, 2, solvers=solvers)  # type: ignore[arg-type]  # they are names of solvers
    verdict = validate(problem, proposal_of(answer.plan))
    assert verdict.is_valid, verdict.broken
    assert verdict.corrected == ()
    assert answer.earliest_seconds <= answer.plan.makespan_seconds
    assert simulate(problem, answer.plan, draws=3).p50_seconds == answer.plan.makespan_seconds
    if "cp_sat" in solvers:
        assert (min(one.makespan_seconds for one in answer.compared), answer.earliest_seconds) == (3600, 3600)
        assert answer.plan.cost_micros == 4_000_000  # of the plans that keep the deadline the cheapest


def test_a_job_without_gpus_says_that_its_hosts_are_of_no_known_kind() -> None:
    """Another host may be slower, and nothing in the ledger tells which."""
    facts = of_ledger()
    (history,) = facts.histories
    told = dict(unjudged_rows(replace(facts, histories=(replace(history, gpus=0),))))
    assert "the kind of the hosts that nightly-prep ran on is not known" in told["hosts"]
    assert "hosts" not in dict(unjudged_rows(facts))


SPEEDS = """
speed: {H100: 1, A100: 0.4}
nodes:
  h: {cpus: 64, memory: 1 TB, gpus: 8, sku: H100-80GB}
  a: {cpus: 64, memory: 1 TB, gpus: 8, sku: A100-80GB}
  l: {cpus: 64, memory: 1 TB, gpus: 8, sku: L4}
tasks:
  t: {cpus: 4, memory: 16 GB, gpu: 8, duration: {H100: 10 h}}
"""


def _by_kind(text: str) -> dict[str, Duration]:
    return dict(read_tasks(text, 0).problem().tasks[0].durations)


def test_a_duration_is_predicted_by_the_speeds_that_the_file_says() -> None:
    """25 h on an A100 at 0.4 of the speed, with a spread that says that nobody saw it; on an L4 nobody knows."""
    found = _by_kind(SPEEDS)
    assert found["H100-80GB"] == Duration.of(36_000)
    assert found["A100-80GB"] == Duration(72_000, 90_000, 112_500, predicted_from="H100-80GB")
    assert "L4" not in found


def test_a_duration_on_a_kind_that_no_node_has_is_a_base_too() -> None:
    """Whoever has A100s alone knows from elsewhere what it took on an H100; the task was placed nowhere."""
    found = _by_kind(SPEEDS.replace("  h: {cpus: 64, memory: 1 TB, gpus: 8, sku: H100-80GB}\n", ""))
    assert found["A100-80GB"] == Duration(72_000, 90_000, 112_500, predicted_from="H100")


@pytest.mark.parametrize(
    ("said", "kind", "is_of"),
    [
        ("H100", "H100-80GB", True),
        ("NVIDIA H100 80GB HBM3", "H100-80GB", True),
        ("RTX 4000", "Quadro RTX 4000", True),
        ("RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", True),
        ("A100 3g.20gb", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", True),
        ("RTX 4000", "NVIDIA RTX 4000 Ada Generation", False),
        ("RTX 4080", "RTX-4080-SUPER-16GB", False),
        ("RTX 3090", "RTX-3090-Ti-24GB", False),
        ("H100", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", False),
        ("H100 1g.10gb", "H100-80GB", False),
        ("H100 1g.10gb", "H100 MIG 2g.20gb", False),
        ("A100 3g.20gb", "NVIDIA A100-SXM4-40GB MIG 2c.3g.20gb", False),
    ],
)
def test_a_name_is_of_no_other_chip_and_a_board_s_of_none_of_its_slices(said: str, kind: str, *, is_of: bool) -> None:
    """What 10 h took on a board was planned as 10 h on a seventh of it."""
    assert means(said, kind) is is_of


def test_a_task_of_a_board_is_not_placed_on_a_slice() -> None:
    """Nothing says how long it takes there."""
    with pytest.raises(ProblemError, match=r"H100 MIG 1g\.10gb"):
        read_tasks(
            SPEEDS.replace("H100-80GB", "H100 MIG 1g.10gb").replace("speed: {H100: 1, A100: 0.4}", ""), 0
        ).problem()


def test_what_the_file_says_of_a_kind_goes_before_its_speed() -> None:
    """And a task's own speeds before those of all."""
    said = _by_kind(SPEEDS.replace("{H100: 10 h}", "{H100: 10 h, A100: 21 h}"))
    assert said["A100-80GB"] == Duration.of(75_600)
    own = _by_kind(SPEEDS.replace("{H100: 10 h}", "{H100: 10 h}, speed: {H100: 2, A100: 1}"))
    assert own["A100-80GB"].p50_seconds == 72_000


def test_one_figure_is_that_of_speed_1() -> None:
    """On the kind of speed 1 it is as it was said; on nodes of no known speed the task is not placed."""
    found = _by_kind(SPEEDS.replace("{H100: 10 h}", "10 h"))
    assert found["H100-80GB"] == Duration.of(36_000)
    assert (found["A100-80GB"].p50_seconds, found["A100-80GB"].predicted_from) == (90_000, "speed 1")
    assert set(found) == {"H100-80GB", "A100-80GB"}


def test_a_prediction_is_told_as_one() -> None:
    """Beside what else the plan does not model, where the plan has the task on such a kind."""
    problem = read_tasks(SPEEDS.replace("gpu: 8, ", "gpu: 8, node: a, "), 0).problem()
    answer = solve(problem, 2)
    facts = plan_facts(answer, simulate(problem, answer.plan), PlanContext("jobs.yaml"))
    assert dict(unjudged_rows(facts))["predicted"].startswith("durations of t from H100-80GB, by the speeds")


@pytest.mark.parametrize("speed", ["{H100: 0}", "{}", "fast", "{H100: -1}"])
def test_a_speed_that_is_none_is_refused(speed: str) -> None:
    """With what it should be."""
    with pytest.raises(TaskFileError, match=r"speed (must be|of H100)"):
        read_tasks(SPEEDS.replace("{H100: 1, A100: 0.4}", speed), 0)
