"""The telemetry of the fleet: deterministic, within the contract, and physically consistent."""

import hashlib
import itertools
from typing import Any

import numpy as np
import pytest

from agent.wire.tables import TABLES
from agent.wire.units import DAY_MS, HOUR_MS
from simulator.batches import Batch, batch_count, batches, host_batches, scheduler_batch
from simulator.fleet import Fleet
from simulator.send import encode_batch
from simulator.site import Chunk, alpha_site, small_site


def digests(made: "itertools.chain[Batch] | list[Batch]") -> dict[tuple[str, int], str]:
    """Return the hash of every batch's bytes by agent and sequence."""
    return {(batch.agent, batch.sequence): hashlib.sha256(encode_batch(batch)).hexdigest() for batch in made}


def gpu_rows(batch: Batch, gpu: int) -> dict[str, Any]:
    """Return the columns of one GPU of a batch."""
    return {name: values[gpu::8] for name, values in batch.tables["gpu_samples"].items()}


def day_of(fleet: Fleet, node: str, day: int) -> list[Batch]:
    """Return one host's batches of one day."""
    chunk = list(fleet.site.chunks())[day]
    return list(host_batches(fleet, fleet.site.host(node), chunk))


def test_the_same_seed_gives_the_same_bytes() -> None:
    """A demo that differs from run to run cannot be documented, and a bench not be compared."""
    first, second = (digests(list(batches(Fleet(small_site(seed=7))))) for _ in range(2))
    assert first == second


def test_another_order_gives_the_same_bytes(small: Fleet) -> None:
    """Random numbers hang on host, chunk and purpose, so that hosts may be made in parallel."""
    forwards = digests(list(batches(small)))
    fresh = Fleet(small_site())
    backwards = [scheduler_batch(fresh)]
    for host in reversed(fresh.site.hosts):
        for chunk in reversed(list(fresh.site.chunks())):
            backwards += list(host_batches(fresh, host, chunk))
    assert digests(backwards) == forwards


def test_a_day_made_alone_is_that_day_of_the_week(week: Fleet) -> None:
    """A chunk knows nothing of the chunks before it."""
    alone = Fleet(alpha_site())
    assert digests(day_of(alone, "n14", 2)) == digests(day_of(week, "n14", 2))


def test_another_seed_is_another_stream(small: Fleet) -> None:
    """Other bytes under the same stream and sequence would be refused with 409."""
    other = Fleet(small_site(seed=2))
    ours, theirs = list(batches(small)), list(batches(other))
    assert {batch.stream for batch in ours}.isdisjoint(batch.stream for batch in theirs)
    assert list(gpu_rows(ours[1], 0)["power_watts"]) != list(gpu_rows(theirs[1], 0)["power_watts"])


def test_every_column_is_of_the_contract_and_within_its_range(small: Fleet) -> None:
    """The collector range-checks what arrives and refuses the whole batch."""
    for batch in batches(small):
        for table, columns in batch.tables.items():
            lengths = {len(values) for values in columns.values()}
            assert len(lengths) == 1, (table, lengths)
            for name, values in columns.items():
                column = TABLES[table].column(name)
                known = [
                    value for value in (values.tolist() if hasattr(values, "tolist") else values) if value is not None
                ]
                if column.range is not None and known:
                    assert column.range[0] <= min(known), (table, name)
                    assert max(known) <= column.range[1], (table, name)


@pytest.mark.parametrize(("node", "day"), [("n01", 3), ("n05", 2), ("n11", 1), ("n16", 1), ("n18", 5), ("n23", 4)])
def test_the_week_is_within_the_contract(week: Fleet, node: str, day: int) -> None:
    """As for the small site, where loads are heaviest."""
    for batch in day_of(week, node, day):
        for table, columns in batch.tables.items():
            for name, values in columns.items():
                allowed = TABLES[table].column(name).range
                if allowed is not None and isinstance(values, np.ndarray):
                    assert allowed[0] <= np.min(values), (table, name)
                    assert np.max(values) <= allowed[1], (table, name)


def test_energy_is_the_integral_of_power(small: Fleet) -> None:
    """Watts and joules are two readings of one thing; cost and carbon are made of the second."""
    for batch in batches(small, hosts=("s01", "s02")):
        rows: dict[str, Any] = dict(batch.tables["gpu_samples"])
        seconds = (rows["ended_at"] - rows["started_at"]) / 1e6
        assert rows["energy_joules"] == pytest.approx(rows["power_watts"] * seconds, abs=0.06 * seconds.max())


def test_the_energy_counter_telescopes_over_days(week: Fleet) -> None:
    """A lost batch loses no joule only if the counter goes on where it was, also from one chunk to the next."""
    made = [gpu_rows(batch, 3) for day in (0, 1) for batch in day_of(week, "n02", day)]
    total = np.concatenate([rows["energy_joules_total"] for rows in made])
    spent = np.concatenate([rows["energy_joules"] for rows in made])
    assert np.diff(total) == pytest.approx(spent[1:], abs=0.2)
    assert (spent > 0).all()


def test_intervals_of_a_gpu_abut(small: Fleet) -> None:
    """An agent's next interval starts where the last ended."""
    made = [batch for batch in batches(small) if batch.agent == "s01"]
    rows = [gpu_rows(batch, 5) for batch in made]
    starts = np.concatenate([part["started_at"] for part in rows])
    ends = np.concatenate([part["ended_at"] for part in rows])
    assert (starts[1:] == ends[:-1]).all()
    assert starts[0] == small.site.started_at
    assert ends[-1] == small.site.microseconds(small.site.span)


def test_an_a100_does_not_tell_what_it_cannot(small: Fleet) -> None:
    """GPM came with Hopper; a zero there would read as an idle chip."""
    told = {batch.agent: set(batch.tables["gpu_samples"]) for batch in batches(small, hosts=("s01", "s02"))}
    assert {"sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"} <= told["s01"]
    assert not {name for name in told["s02"] if name.startswith(("sm_active", "sm_occ", "tensor", "dram"))}
    assert "utilization_ratio" in told["s02"]


def test_a_dead_node_is_silent_and_counts_anew(week: Fleet) -> None:
    """Its rows are absent, not zero; the driver's counter restarts, and no joule is made up across the reload."""
    made = day_of(week, "n05", 2)
    starts = np.concatenate([gpu_rows(batch, 0)["started_at"] for batch in made])
    gap = np.diff(starts).max() / 60e6
    assert gap == 4 * 60 + 48 + 1
    after = next(batch for batch in made if gpu_rows(batch, 0)["energy_epoch"][-1] == 1)
    assert np.ma.getmaskarray(gpu_rows(after, 0)["energy_joules"]).tolist() == [True] + [False] * 59
    assert gpu_rows(after, 0)["energy_joules_total"][0] < 10_000


def test_sequences_have_no_gaps_although_hours_have(week: Fleet) -> None:
    """A gap in a stream means dropped batches; a dead agent drops none."""
    made = [batch.sequence for day in range(7) for batch in day_of(week, "n05", day)]
    assert made == list(range(168 - 4))


def test_a_lost_gpu_is_there_and_says_nothing(week: Fleet) -> None:
    """Off the bus must be visible, not absent: up is false, and every reading is null."""
    made = [gpu_rows(batch, 5) for batch in day_of(week, "n22", 3)]
    lost = [rows for rows in made if not any(rows["up"])]
    assert len(lost) == 8
    assert all(np.ma.getmaskarray(rows["power_watts"]).all() for rows in lost)
    assert sum(int(rows["xid_events"].sum()) for rows in made) == 1


def test_no_two_runs_hold_a_gpu_unless_they_share_it(week: Fleet) -> None:
    """Overlapping allocations would be divided between the runs, and both be judged by half a truth."""
    sharing = 0
    for host in week.site.hosts:
        for gpu in range(host.gpus):
            for one, other in itertools.combinations(week.stays(host, gpu), 2):
                apart = one.timeline.end <= other.timeline.start or other.timeline.end <= one.timeline.start
                shared = one.run.plan.shared == other.run.plan.shared == 4
                assert apart or shared, (host.name, gpu, one.run.plan.name, other.run.plan.name)
                sharing += not apart
    assert sharing == 6  # the pairs among four


def test_the_scheduler_tells_every_allocation_once(week: Fleet) -> None:
    """One row for a run's GPU and attempt, with its final end: no rule about newer rows is needed to read it."""
    batch = scheduler_batch(week)
    rows: dict[str, Any] = dict(batch.tables["allocations"])
    held = np.flatnonzero(~np.ma.getmaskarray(rows["started_at"]))
    keys = [(rows["run_id"][at], rows["attempt"][at], rows["gpu_uuid"][at]) for at in held]
    assert len(keys) == len(set(keys))
    assert len(batch.tables["ownership"]["node"]) == 192
    names = {rows["run_id"][at]: rows["name"][at] for at in held}
    assert [list(names.values()).count(name) for name in ("det-sweep", "eval", "vit-large", "notebook")] == [
        41,
        212,
        9,
        8,
    ]


def test_the_count_for_the_progress_bar_is_the_count(small: Fleet) -> None:
    """A bar that ends at 99% looks broken."""
    assert len(list(batches(small))) == batch_count(small)


def test_exchange_across_racks_runs_at_half_the_rate_within_one(week: Fleet) -> None:
    """The spine is oversubscribed two to one: what a cross-rack verdict is to be found by."""
    fastest = {}
    for node in ("n02", "n10"):
        rates = [
            np.asarray(batch.tables["network_samples"]["transmit_bytes"])[1::2].max() for batch in day_of(week, node, 0)
        ]
        fastest[node] = max(rates) / 60
    assert fastest["n10"] < 4.4e9
    within = next(run for run in week.runs if run.plan.name == "vlm-34b").timelines[0]
    across = next(run for run in week.runs if run.plan.name == "pretrain-7b").timelines[0]
    peak = [max(activity.fabric for activity in made.activities) * 8 for made in (within, across)]
    assert peak == pytest.approx([8e9, 4e9])


def test_power_follows_activity(week: Fleet) -> None:
    """Watts, SM activity and the shares of busy samples are readings of one thing."""
    rows = [gpu_rows(batch, 0) for batch in day_of(week, "n14", 2)]
    watts = np.concatenate([part["power_watts"] for part in rows])
    sm = np.concatenate([part["sm_active_ratio"] for part in rows])
    assert np.corrcoef(watts, sm)[0, 1] > 0.98
    assert watts.min() > 60
    assert watts.max() < 735


def test_a_stalled_minute_moves_no_input(week: Fleet) -> None:
    """Transfers drop in stalls: the GPU waits because nothing comes."""
    rows = [gpu_rows(batch, 0) for batch in day_of(week, "n14", 2)]
    stalled = np.concatenate([part["utilization_zero_ratio"] for part in rows]) > 0.97
    moved = np.concatenate([part["pcie_receive_bytes"] for part in rows])
    assert stalled.any()
    assert moved[stalled].max() < 0.1 * np.median(moved[~stalled])


def test_chunks_cover_the_span() -> None:
    """Days in order, the last with its own beat, nothing in between."""
    site = alpha_site(every_seconds=60, last_day_every_seconds=10)
    chunks = list(site.chunks())
    assert chunks[0] == Chunk(0, 0, DAY_MS, 60_000)
    assert chunks[-1] == Chunk(6, 6 * DAY_MS, 7 * DAY_MS, 10_000)
    assert sum(192 * (chunk.end - chunk.start) // chunk.beat for chunk in chunks) == 3_317_760
    assert [chunk.end for chunk in small_site().chunks()] == [2 * HOUR_MS]


@pytest.mark.parametrize("node", ["n04", "n13", "n14", "n16", "n24"])
def test_no_run_uses_more_cores_than_it_has(week: Fleet, node: str) -> None:
    """A quota that is exceeded would be no quota, and a rule about it could not be measured here."""
    for batch in day_of(week, node, 1):
        if "run_samples" in batch.tables:
            rows: dict[str, Any] = dict(batch.tables["run_samples"])
            seconds = (rows["ended_at"] - rows["started_at"]) / 1e6
            assert (rows["cpu_seconds"] <= 1.05 * rows["cores_allotted"] * seconds).all()
