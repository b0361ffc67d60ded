"""Truth: one label for every millisecond, in the analyzer's words, beside the telemetry and never in it."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from agent.wire.envelope import open_envelope
from agent.wire.units import DAY_MS, HOUR_MS
from analyzer.states import LOSABLE, booking
from bench.truth.simulated import gpu_truth, truth, write_truth
from simulator import labels
from simulator.batches import batches
from simulator.fleet import Fleet
from simulator.labels import Label
from simulator.send import encode_batch
from simulator.site import Chunk


def hours_by_label(fleet: Fleet) -> Counter[Label]:
    """Return GPU-hours by label, hour by hour of every GPU."""
    found: Counter[Label] = Counter()
    for host in fleet.site.hosts:
        for gpu in range(host.gpus):
            made = gpu_truth(fleet, host, gpu, Chunk(0, 0, fleet.site.span, HOUR_MS))
            for label, milliseconds in zip(made.labels, made.milliseconds.sum(axis=0), strict=True):
                found[label] += int(milliseconds)
    return found


def test_every_gpu_millisecond_has_exactly_one_label(small: Fleet) -> None:
    """A bench that compares a ledger with a truth that leaks would blame the ledger."""
    for part in truth(small):
        assert (part.milliseconds >= 0).all()
        assert (part.milliseconds.sum(axis=1) == np.diff(part.edges)).all()


@pytest.mark.parametrize("node", ["n05", "n11", "n17", "n22", "n24"])
def test_the_week_is_labelled_whole_around_failures_heat_and_silence(week: Fleet, node: str) -> None:
    """Overlays cut phases in two; nothing may be lost or counted twice at the cuts."""
    host = week.site.host(node)
    for gpu in range(host.gpus):
        part = gpu_truth(week, host, gpu, Chunk(2, 2 * DAY_MS, 3 * DAY_MS, 60_000))
        assert (part.milliseconds.sum(axis=1) == 60_000).all()


def test_the_labels_are_the_analyzers(week: Fleet) -> None:
    """The names are copied, so that the agent imports nothing of ours; this is what holds the copy to the original."""
    for label in hours_by_label(week):
        booking(label.state, label.cause)
        assert label.would_be is None or (label.state == "lost_work" and label.would_be in LOSABLE)
    assert labels.LOSABLE == LOSABLE


def test_the_week_has_at_least_one_of_every_cause_that_it_promises(week: Fleet) -> None:
    """A detector can be measured only by what occurs."""
    missing = {("unallocated", "reserved_unused"), ("unallocated", "fragmented"), ("unobserved", "gap")}
    missing |= {("unobserved", "never_seen"), ("broken", "hardware"), ("throttled", "hardware")}
    missing |= {("headroom", "beyond_policy"), ("productive", "memory_bandwidth")}
    seen = {(label.state, label.cause) for label in hours_by_label(week)}
    assert len(seen) == 36
    assert not seen & missing


def test_the_mix_of_the_week_is_that_of_the_documents(week: Fleet) -> None:
    """About half useful and a seventh avoidable: the pages of the demo should look like those that were drawn."""
    share: Counter[str] = Counter()
    for label, milliseconds in hours_by_label(week).items():
        share[booking(label.state, label.cause).klass] += milliseconds
    total = sum(share.values())
    assert total == 192 * 7 * DAY_MS
    wanted = {"useful": 0.51, "avoidable": 0.14, "overhead": 0.06, "spare": 0.27, "unknown": 0.02}
    assert {name: round(share[name] / total, 2) for name in wanted} == pytest.approx(wanted, abs=0.03)


def test_held_and_unallocated_follow_the_allocations(week: Fleet) -> None:
    """Allocation and use are two facts, but truth may not contradict the scheduler about who held a GPU."""
    for host in week.site.hosts:
        for gpu in range(host.gpus):
            held = sum(stay.timeline.end - stay.timeline.start for stay in week.stays(host, gpu) if stay.main)
            whole = gpu_truth(week, host, gpu, Chunk(0, 0, week.site.span, HOUR_MS))
            free = [at for at, label in enumerate(whole.labels) if label.state in ("unallocated", "broken")]
            if not any(outage.touches(host.name, gpu) for outage in week.outages):
                assert whole.milliseconds[:, free].sum() == week.site.span - held


def test_what_a_failure_takes_is_what_came_after_the_last_checkpoint(week: Fleet) -> None:
    """Nothing that was saved is lost, and idling is not lost by failing."""
    first = next(run for run in week.runs if run.plan.number == "80217" and run.plan.attempt == 0)
    made = first.timelines[0]
    is_lost = np.array([activity.truth[0][0].state == "lost_work" for activity in made.activities])[made.index]
    saving = np.array([activity.truth[0][0].state == "checkpointing" for activity in made.activities])[made.index]
    assert is_lost.any()
    assert np.flatnonzero(saving).max() < np.flatnonzero(is_lost).min()


def test_truth_never_travels(small: Fleet) -> None:
    """A label on the wire would let the analyzer read the answer."""
    words = {label.cause for label in hours_by_label(small) if label.cause} - {"storage", "network", "compute"}
    for batch in batches(small):
        _, messages = open_envelope(encode_batch(batch))
        content = b"".join(messages.values())
        assert not [word for word in words if word.encode() in content.replace(b"collective", b"")]


def test_the_file_says_the_same_as_the_generator(small: Fleet, tmp_path: Path) -> None:
    """Merging abutting beats of one label saves nine rows in ten and may not change a sum."""
    path = tmp_path / "truth.npz"
    rows = write_truth(small, path)
    with np.load(path) as file:
        assert len(file["gpu"]) == rows
        by_gpu = np.bincount(file["gpu"], file["milliseconds"])
        assert (by_gpu == small.site.span).all()
        names = [tuple(name) for name in file["labels"]]
        from_file = {name: int(file["milliseconds"][file["label"] == at].sum()) for at, name in enumerate(names)}
        assert file["started_at"].min() == small.site.started_at
    expected = {(one.state, one.cause or "", one.would_be or ""): ms for one, ms in hours_by_label(small).items()}
    assert from_file == {name: ms for name, ms in expected.items() if ms}
