"""Power cuts: whatever a disk has not synced may be gone, and nothing that was said to be kept may be."""

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.files import Disk
from agent.spool.queue import Spool
from agent.spool.segment_store import SegmentStore
from tests.agent.batches import busy_of, identity, maker
from tests.agent.power import PoweredDisk, leave

LARGE = 10**7
ACTIONS = st.lists(
    st.sampled_from(["append", "append", "seal", "seal", "keep", "refuse", "again", "stream"]), max_size=14
)


def test_a_batch_is_synced_before_it_has_its_name_and_its_name_before_it_counts(tmp_path: Path) -> None:
    """The order that a power cut demands: content, then name, then the directory that holds the name."""
    order: list[str] = []

    class Noting(Disk):
        def create(self, path: Path, content: bytes) -> None:
            order.append(f"create {path.suffix}")
            super().create(path, content)

        def sync_file(self, path: Path, handle: int) -> None:
            order.append(f"sync {path.suffix}")
            super().sync_file(path, handle)

        def rename(self, source: Path, target: Path) -> None:
            order.append(f"rename {source.suffix} {target.suffix}")
            super().rename(source, target)

        def sync_directory(self, path: Path) -> None:
            order.append("sync directory")
            super().sync_directory(path)

    queue = Spool(SegmentStore(tmp_path / "spool", Noting()), LARGE, LARGE)
    order.clear()
    queue.append(maker())
    queue.close()
    assert order == ["create .tmp", "sync .tmp", "rename .tmp .batch", "sync directory"]


def test_without_syncs_the_kernel_is_asked_for_none(tmp_path: Path) -> None:
    """`spool_sync = "off"` is for hosts whose disk is the run's; a kill loses nothing all the same."""

    class Counting(Disk):
        syncs = 0

        def sync_file(self, path: Path, handle: int) -> None:
            type(self).syncs += 1

    queue = Spool(SegmentStore(tmp_path / "spool", Counting(sync=False)), LARGE, LARGE)
    queue.append(maker())
    queue.close()
    assert Counting.syncs == 0
    again = Spool(SegmentStore(tmp_path / "spool"), LARGE, LARGE)
    assert again.waiting == 1
    again.close()


@dataclass
class Story:
    """A spool, what was done with it, and what its collector knows."""

    queue: Spool
    safe: set[float] = field(default_factory=set)  # what append() called safe, by the content
    over: set[float] = field(default_factory=set)  # what may be gone: sealed, refused, or of an old stream
    sent: dict[tuple[str, int], float] = field(default_factory=dict)
    accepted: dict[float, tuple[str, int]] = field(default_factory=dict)

    def do(self, action: str, number: int) -> None:
        """Do one thing."""
        if action == "append":
            if self.queue.append(maker(number / 1000)):
                self.safe.add(number / 1000)
        elif action == "again":
            self.queue.send_again()
            self.accepted.clear()  # the collector has lost it
        elif action == "stream":
            self.over |= set(self.accepted)
            self.queue.begin_stream()
        elif (found := self.queue.oldest(0)) is not None:
            self._answer(action, found[0], found[1])

    def _answer(self, action: str, sequence: int, body: bytes) -> None:
        self.sent[identity(body)] = busy_of(body)
        if action == "refuse":
            self.over.add(busy_of(body))
            self.queue.refuse(sequence, "no")
            return
        self.accepted[busy_of(body)] = identity(body)
        if action == "seal":
            self.over |= set(self.accepted)
        self.queue.acknowledge(sequence, sequence if action == "seal" else -1)


def take(queue: Spool) -> dict[float, tuple[str, int]]:
    """Take everything out; return the identity of each batch by its content."""
    found: dict[float, tuple[str, int]] = {}
    while (batch := queue.oldest(0)) is not None:
        queue.acknowledge(batch[0], batch[0])
        assert busy_of(batch[1]) not in found, "one content under two numbers counts twice"
        found[busy_of(batch[1])] = identity(batch[1])
    return found


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    actions=ACTIONS,
    cut=st.one_of(st.integers(8, 120), st.just(10**6)),
    seed=st.integers(0, 2**32),
    chance=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
)
def test_after_a_power_cut_everything_that_was_kept_is_there_once(
    tmp_path_factory: pytest.TempPathFactory, actions: list[str], cut: int, seed: int, chance: float
) -> None:
    """At any step of any story, with any part of what was not synced: what append() called safe is delivered."""
    place = tmp_path_factory.mktemp("power")
    (place / "spool").mkdir()
    disk = PoweredDisk()
    story = Story(Spool(SegmentStore(place / "spool", disk), LARGE, LARGE))
    must: set[float] = set()
    for number, action in enumerate(actions, 1):
        must = set(story.safe)
        story.do(action, number)
        if len(disk.steps) >= cut:  # the power fails within this one
            break
    else:
        must = set(story.safe)
    story.queue.close()
    draw = random.Random(seed)
    leave(disk.steps[:cut], place / "spool", place / "left", lambda: draw.random() < chance)
    again = Spool(SegmentStore(place / "left"), LARGE, LARGE)
    again.append(maker(0.999))
    found = take(again)
    again.close()
    assert must - story.over <= found.keys(), "nothing is lost"
    for busy, known in story.accepted.items():
        assert found.get(busy, known) == known, "what the collector has does not come under another number"
    for busy, number_given in found.items():
        assert story.sent.get(number_given, busy) == busy, "a number is one content for ever"
