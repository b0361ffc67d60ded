"""What is noticed of hosts: work for processors, agents, drivers, links, memory in use without a run."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from analyzer.findings.health.all_notices import notices_in
from analyzer.findings.health.gpus import Unheld, unheld_memory_notices
from analyzer.findings.health.hosts import (
    SILENT_AGENTS,
    Agent,
    HostDriver,
    Port,
    agent_notices,
    driver_notices,
    port_notices,
)
from tests.analyzer.findings.health_fleets import (
    GB,
    NODES,
    UNTIL,
    WELL,
    Values,
    compute,
    gpus,
    hosts,
    not_judged,
    noticed,
    own_notices,
    train,
    well,
)
from tests.analyzer.ledger.copies import OnePass, made_once
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

UNTOLD = {"memory_used_bytes": None, "pcie_replay_events": None}

one_pass = OnePass(lambda store, _: store.analyze(UNTIL))


@one_pass
def test_a_run_without_gpus_on_a_gpu_host_is_noticed(fleet: Fleet) -> Iterator[None]:
    """Its cores are what loaders of the GPU runs beside it wait for."""
    well(into=fleet)
    compute(fleet, "slurm/alpha/9", "n2", cores=10.0)
    compute(fleet, "slurm/alpha/10", "n3", cores=0.5)  # a daemon
    compute(fleet, "slurm/alpha/11", "n3", cores=20.0, hours=1)  # too short
    yield
    (notice,) = own_notices(fleet, "fleet/cpu_only")
    assert notice.run_ids == ("slurm/alpha/9",)
    assert notice.sentence.startswith("keeps 10 cores of n2 busy for 3 h and holds no GPU, beside runs that need GPUs")


@one_pass
def test_a_run_that_leaves_its_gpus_alone_is_noticed(fleet: Fleet) -> Iterator[None]:
    """It is its owner's to ask for none; one that works is not meant, however many cores it takes."""
    hosts({"n1-a": {"utilization_ratio": 0.0, "sm_active_ratio": 0.0, "memory_used_bytes": 0}}, into=fleet)
    train(fleet, ["n1-a"], "slurm/alpha/5", "tokenise")
    train(fleet, ["n1-b"], "slurm/alpha/6")
    compute(fleet, "slurm/alpha/5", "n1", cores=30.0)
    compute(fleet, "slurm/alpha/6", "n1", cores=30.0)
    yield
    (notice,) = own_notices(fleet, "fleet/cpu_only")
    assert (notice.subject, notice.actor, notice.confidence) == ("tokenise", "run", "high")


@made_once
def samples_alone() -> Fleet:
    """Return a GPU of which nothing but samples is told, analysed."""
    fleet = Fleet()
    fleet.own("n1", ["a"])
    fleet.sample("n1", "a", MONDAY, UNTIL, **WELL)
    fleet.analyze(UNTIL)
    return fleet


def test_processors_that_nobody_tells_of_are_not_judged() -> None:
    """A fleet whose hosts send no figures of runs cannot be accused of CPU-only ones."""
    fleet = samples_alone()
    assert noticed(fleet, "fleet/cpu_only") == []
    assert len(not_judged(fleet, "fleet/cpu_only")) == 1
    assert len(not_judged(fleet, "run/packed_stages")) == 0  # there was no run to judge


@one_pass
def test_memory_that_nobody_holds_is_noticed(fleet: Fleet) -> Iterator[None]:
    """The next run finds less than it was promised. What a run holds is its own."""
    rests: dict[str, object] = {"utilization_ratio": 0.0, "sm_active_ratio": 0.0}
    hosts({"n4-a": rests, "n4-b": rests | {"memory_used_bytes": GB // 4}}, into=fleet)
    train(fleet, [gpu for node in NODES[:3] for gpu in gpus(node)])
    yield
    (notice,) = own_notices(fleet, "fleet/zombie_memory")
    assert (notice.gpu_uuid, notice.confidence) == ("n4-a", "high")
    assert "37.3 GiB of its memory in use for 6 h while no run held it" in notice.sentence


@pytest.mark.parametrize(
    ("unheld", "count"),
    [
        (Unheld("n1", "a", 1_800_000, 500_000_000, 0, MONDAY), 1),
        (Unheld("n1", "a", 1_799_999, 500_000_000, 0, MONDAY), 0),
        (Unheld("n1", "a", 1_800_000, 499_999_999, 0, MONDAY), 0),
        (Unheld("n1", "a", 1_800_000, 430_000_000, 1000, MONDAY, 499), 0),
        (Unheld("n1", "a", 1_800_000, 430_000_000, 1000, MONDAY, 500), 1),
    ],
)
def test_a_context_between_two_runs_is_no_zombie(unheld: Unheld, count: int) -> None:
    """Half an hour and half a gigabyte are what is asked for."""
    assert len(list(unheld_memory_notices([unheld]))) == count


@one_pass
def test_a_context_that_computes_is_somebodys(fleet: Fleet) -> Iterator[None]:
    """The process is gone from every list, its GPU stays full, and 0.4 GiB are in use: as little as a context takes."""
    hosts({"n4-a": {"memory_used_bytes": 430_000_000}, "n4-b": {"memory_used_bytes": 0}}, into=fleet)
    train(fleet, [gpu for node in NODES[:3] for gpu in gpus(node)])
    yield
    (notice,) = own_notices(fleet, "fleet/zombie_memory")
    assert (notice.gpu_uuid, notice.actor, notice.confidence) == ("n4-a", "platform", "medium")


@one_pass
def test_the_work_of_an_hour_is_the_runs_that_held_the_gpu_in_it(fleet: Fleet) -> Iterator[None]:
    """Ten free minutes before a run and twenty after it, with a driver's own memory in use: nobody computed there."""
    hosts({"n4-a": {"memory_used_bytes": 430_000_000}}, into=fleet)
    for gpu in (gpu for node in NODES for gpu in gpus(node)):
        end = UNTIL - 40 * MINUTE if gpu == "n4-a" else UNTIL
        fleet.hold("slurm/alpha/1", gpu.split("-")[0], [gpu], MONDAY, end)
    yield
    assert own_notices(fleet, "fleet/zombie_memory") == []


@made_once
def untold() -> Fleet:
    """Return hosts of which neither memory nor replays are told, analysed."""
    fleet = hosts(dict.fromkeys((gpu for node in NODES for gpu in gpus(node)), UNTOLD))
    fleet.analyze(UNTIL)
    return fleet


def test_memory_that_nobody_tells_is_not_judged() -> None:
    """None is not an empty GPU."""
    fleet = untold()
    assert not_judged(fleet, "fleet/zombie_memory") == ["no GPU memory usage was reported"]


def test_silence_is_measured_against_the_fleet() -> None:
    """A host that fell silent two hours ago, and one that never spoke; one that its scheduler calls down is neither."""
    fleet = well()
    for node, until in (("n5", UNTIL - 2 * HOUR - 5 * MINUTE), ("n7", UNTIL - 3 * HOUR)):
        fleet.own(node, [f"{node}-a"])
        fleet.sample(node, f"{node}-a", MONDAY, until, **WELL)
    fleet.own("n6", ["n6-a"])
    fleet.add("node_states", [{"node": "n7", "started_at": UNTIL - 4 * HOUR, "ended_at": UNTIL, "state": "down"}])
    found = noticed(fleet, "fleet/silent_agents")
    assert [(notice.node, notice.rule.rsplit("/", 1)[1]) for notice in found] == [
        ("n5", "silent"),
        ("n6", "never_seen"),
    ]
    assert found[0].sentence.startswith("silent for 2 h: 1 GPU paid for and not measured")


@pytest.mark.parametrize(
    ("agent", "kinds"),
    [
        (Agent("n1", 8, False, True, 100, told_ms=3_600_000, gaps=3, beat_ms=10_000), []),
        (Agent("n1", 8, False, True, 100, told_ms=3_600_000, gaps=20, beat_ms=10_000), ["gaps"]),
        (Agent("n1", 8, False, True, 100, dropped_batches=2, dropped_rows=400), ["dropped"]),
        (Agent("n1", 8, False, True, 100, offset_ms=1_000), []),
        (Agent("n1", 8, False, True, 100, offset_ms=1_001), ["clock"]),
    ],
)
def test_an_agent_that_is_not_well_is_noticed(agent: Agent, kinds: list[str]) -> None:
    """Each fault by itself: they have different remedies."""
    assert [notice.rule.rsplit("/", 1)[1] for notice in agent_notices([agent])] == kinds


def test_agents_that_say_nothing_of_themselves_are_not_judged() -> None:
    """What a Prometheus brought has no agent of ours."""
    assert len(not_judged(samples_alone(), "fleet/silent_agents")) == 1


def test_a_driver_that_is_not_the_groups_is_noticed() -> None:
    """By majority, in the order of versions: .9 is older than .10. Two hosts have no majority."""
    group = [HostDriver("h100", f"n{number}", "570.10.1") for number in range(3)]
    (old,) = driver_notices([*group, HostDriver("h100", "n9", "570.9.9")])
    assert (old.subject, old.confidence) == ("n9", "high")
    (new,) = driver_notices([*group, HostDriver("h100", "n9", "580.1")])
    assert new.confidence == "medium"
    assert list(driver_notices([HostDriver("a", "n1", "1.0"), HostDriver("a", "n2", "2.0")])) == []
    assert list(driver_notices([*group, HostDriver("h100", "n9", None)])) == []


def test_a_group_behind_the_fleet_is_noticed() -> None:
    """It has no odd host, and is old all the same."""
    older = [HostDriver("a100", f"m{number}", "535.1") for number in range(3)]
    newer = [HostDriver("h100", f"n{number}", "570.1") for number in range(4)]
    (notice,) = driver_notices(older + newer)
    assert (notice.subject, notice.confidence) == ("a100", "medium")


def test_drivers_that_nobody_tells_are_not_judged() -> None:
    """An import of samples alone knows none."""
    assert len(not_judged(samples_alone(), "fleet/drivers")) == 1


def test_links_are_noticed_where_they_are_not_as_the_others() -> None:
    """One GPU sends packets again, one port runs at half the speed of those beside it.

    Eight replays a minute are recommended as the most: seven are not noticed.
    """
    replays: dict[str, Values] = {"n1-a": {"pcie_replay_events": 9}, "n3-a": {"pcie_replay_events": 7}}
    fleet = well(replays | {"n2 port": {"speed_bytes_per_second": 25e9}})
    found = noticed(fleet, "fleet/links")
    assert [(notice.rule, notice.subject) for notice in found] == [
        ("fleet/links/pcie", "n1-a"),
        ("fleet/links/speed", "n2/rdma0"),
    ]
    assert "540 PCIe packets replayed in its worst hour" in found[0].sentence
    assert "200 Gbit/s where most ports of h100 run at 400" in found[1].sentence


def test_errors_count_where_they_stand_out() -> None:
    """What all ports have is the fabric's, and no cable's."""
    ports = [Port("h100", "infiniband", f"n{number}", "rdma0", None, 40, 3_600_000) for number in range(4)]
    worn = Port("h100", "infiniband", "n9", "rdma0", None, 9_000, 3_600_000)
    assert [notice.node for notice in port_notices([*ports, worn])] == ["n9"]
    assert list(port_notices([replace(worn, node=f"n{number}") for number in range(3)])) == []
    assert list(port_notices(ports)) == []


def test_links_that_nobody_tells_of_are_not_judged() -> None:
    """Neither replays nor speeds; NVLink's counters are not sent by any agent yet."""
    fleet = untold()
    for kind in ("pcie", "nvlink"):
        assert len(not_judged(fleet, f"fleet/links/{kind}")) == 1
    assert not_judged(fleet, "fleet/links/speed") == []


def test_imported_samples_accuse_no_agent() -> None:
    """History has samples while jobs ran: that a host has none after its last one is no agent's silence."""
    fleet = Fleet()
    for number in range(12):
        fleet.own(f"n{number:02}", [f"G{number}"])
        until = MONDAY + (1 + number) * HOUR
        fleet.hold(f"slurm/alpha/{number}", f"n{number:02}", [f"G{number}"], MONDAY, until)
        fleet.sample(f"n{number:02}", f"G{number}", MONDAY, until)
    assert noticed(fleet, SILENT_AGENTS, MONDAY + DAY) == []
    assert len(not_judged(fleet, SILENT_AGENTS, MONDAY + DAY)) == 1


def test_job_history_alone_accuses_no_agent() -> None:
    """What a scheduler told of 48 hosts without an agent is one word on what is not measured, and no 48 notices."""
    fleet = Fleet()
    for number in range(48):
        fleet.own(f"n{number:02}", [f"G{number}"])
        fleet.hold(f"slurm/alpha/{number}", f"n{number:02}", [f"G{number}"], MONDAY, MONDAY + 6 * HOUR)
    fleet.analyze(now=MONDAY + DAY)
    with fleet.store.session() as session:
        said = notices_in(session, MONDAY, MONDAY + DAY)
    assert [notice for notice in said.notices if notice.rule.startswith(SILENT_AGENTS)] == []
    (unjudged,) = [each for each in said.unjudged if each.rule == SILENT_AGENTS]
    assert "none of 48 hosts was measured" in unjudged.missing
