"""Streams that change hands between collectors: nothing of them is lost, and nothing is stored twice."""

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from collector.errors import BatchError, RegistryError
from collector.lake.sealing import Sealed, seal
from collector.pipeline.batch_commit import BatchCommit, Receipt
from collector.pipeline.decoding.batch import Batch
from collector.registry import Registry, open_registry, tenant
from collector.registry.tenant import Tenant
from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.seal_mark import Mark
from tests.collector.lake.test_sealing import batch, count

STREAM = "stream"


class Collector:
    """One of several collectors of a lake, whose heart beats when a test says so."""

    def __init__(self, name: str, folder: Path, registry: Registry) -> None:
        self.store = Store.open(folder / f"{name}.duckdb", lake=default_lake(folder / "site.duckdb"))
        self.tenant = Tenant(registry, name, f"http://{name}:8470", name)
        self.mark = Mark.of(self.store, self.tenant.number)
        self.batch_commit = BatchCommit(self.store, self.mark, shared=True)
        self.tenant._beat()
        self.registry = registry

    def fall_silent(self) -> None:
        """Let the others think that it is gone, while it goes on."""
        self.registry.collectors.heartbeat(self.tenant.number, time.time_ns() // 1000, -1)

    def take(self, one: Batch, epoch: int | None = None) -> Receipt | BatchError:
        """Answer one batch as the writer does."""
        judged = self.tenant.judge([(one.header.stream, epoch)])
        self.batch_commit.take_over(judged.acquired)
        (refusal,) = judged.answers
        return refusal or self.batch_commit.land([one])[0]

    def seal(self) -> Sealed:
        """Seal what is ours."""
        return seal(self.store, self.mark, self.tenant)

    def close(self) -> None:
        """Go away."""
        self.batch_commit.close()
        self.store.close()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    """Return the site's registry."""
    with open_registry(tmp_path / "registry.sqlite") as opened:
        yield opened


@pytest.fixture
def pair(tmp_path: Path, registry: Registry) -> Iterator[tuple[Collector, Collector]]:
    """Return two collectors of one lake."""
    both = Collector("a", tmp_path, registry), Collector("b", tmp_path, registry)
    yield both
    for one in both:
        one.close()


def rows(collector: Collector) -> tuple[int, ...]:
    """Return how many rows the lake has, and how many different ones."""
    return count(collector.store, "SELECT count(*), count(DISTINCT (batch, gpu_uuid)) FROM gpu_samples")


def refused(answer: Receipt | BatchError) -> BatchError:
    """Return the refusal that an answer is."""
    assert isinstance(answer, BatchError)
    return answer


def test_a_stream_belongs_to_one_collector_and_the_others_name_it(pair: tuple[Collector, Collector]) -> None:
    """A load balancer sends anywhere: two who both take a batch would both seal it."""
    a, b = pair
    assert isinstance(a.take(batch(0)), Receipt)
    answer = refused(b.take(batch(1)))
    assert (answer.status, answer.location) == (421, "http://a:8470/v1/batches")


def test_who_takes_over_asks_for_what_the_agent_keeps(pair: tuple[Collector, Collector]) -> None:
    """What the earlier owner answered and never sealed is nowhere else; and it comes once, also if that one returns."""
    a, b = pair
    a.take(batch(0))
    a.seal()
    a.take(batch(1))  # answered, and lies on the disk of a host that is gone
    a.fall_silent()
    answer = refused(b.take(batch(2)))
    assert (answer.status, answer.epoch) == (412, 2)
    assert b.take(batch(0), epoch=2) == Receipt(0, sealed_through=0, repeated=True), "the lake has it"
    assert b.take(batch(1), epoch=2) == Receipt(1, sealed_through=0, repeated=False)
    assert b.take(batch(2), epoch=2) == Receipt(2, sealed_through=0, repeated=False)
    b.seal()
    assert rows(b) == (6, 6)
    assert a.seal().batches == 0, "it came back, and may not seal what the other has"
    assert rows(a) == (6, 6)
    assert count(a.store, f"SELECT count(*) FROM {a.store.hot}.arrivals") == (0,)
    assert b.take(batch(3), epoch=2) == Receipt(3, sealed_through=2, repeated=False)


def test_who_gets_a_stream_back_forgets_what_it_had_not_sealed(pair: tuple[Collector, Collector]) -> None:
    """Another had the stream in between, and may have sealed what the agent sent again."""
    a, b = pair
    a.take(batch(0))
    a.fall_silent()
    b.take(batch(0))
    b.take(batch(0), epoch=2)
    b.seal()
    b.take(batch(1), epoch=2)
    b.fall_silent()
    a.tenant._beat()
    assert refused(a.take(batch(1))).epoch == 3
    assert a.take(batch(0), epoch=3) == Receipt(0, sealed_through=0, repeated=True)
    assert a.take(batch(1), epoch=3) == Receipt(1, sealed_through=0, repeated=False)
    a.seal()
    b.seal()
    assert rows(a) == (4, 4)


def test_a_restart_keeps_what_it_has_not_sealed(
    pair: tuple[Collector, Collector], tmp_path: Path, registry: Registry
) -> None:
    """The same owner under the same lease: what it answered is its own to seal."""
    a, _ = pair
    a.take(batch(0))
    a.close()
    again = Collector("a", tmp_path, registry)
    assert again.take(batch(1)) == Receipt(1, sealed_through=-1, repeated=False)
    assert again.seal().batches == 2
    assert rows(again) == (4, 4)
    again.close()


def test_without_the_registry_nothing_is_sealed(pair: tuple[Collector, Collector], tmp_path: Path) -> None:
    """Whether a stream is still ours cannot be known then; what was answered waits."""
    a, _ = pair
    a.take(batch(0))
    with closing(sqlite3.connect(tmp_path / "registry.sqlite")) as database, database:
        database.execute("ALTER TABLE leases RENAME TO away")
    database.close()
    with pytest.raises(RegistryError):
        a.seal()
    assert rows(a) == (0, 0)


def test_a_registry_that_fails_after_the_lake_has_taken_a_sealing_has_nothing_sealed_twice(
    pair: tuple[Collector, Collector], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction idles while the lake writes, and PostgreSQL may end what idles; each retry would seal again."""
    a, _ = pair
    a.take(batch(0))
    ours = a.tenant.guard

    @contextmanager
    def cut_off(streams: Iterable[str]) -> Iterator[dict[str, int]]:
        with ours(streams) as held:
            yield held
        raise RegistryError("terminating connection due to idle-in-transaction timeout")

    monkeypatch.setattr(a.tenant, "guard", cut_off)
    with pytest.raises(RegistryError):
        a.seal()
    assert a.seal().batches == 0
    assert rows(a) == (2, 2)


def test_a_commit_of_the_lake_whose_answer_was_lost_is_not_repeated(pair: tuple[Collector, Collector]) -> None:
    """What has been sealed is known to the lake's marker, whatever this process believes."""
    a, _ = pair
    a.take(batch(0))
    before = a.mark.upto
    a.seal()
    a.mark.upto = before
    assert a.seal().batches == 0
    assert rows(a) == (2, 2)


def test_more_streams_than_are_remembered_are_asked_for_again(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forgetting one that is asked about in the same breath ended the writer, and with it the collector."""
    monkeypatch.setattr(tenant, "MAX_STREAMS", 3)
    one = Tenant(registry, "a", "http://a:8470", "a")
    one._beat()
    for stream in "abc":
        one.judge([(stream, None)])
    for _ in range(3):
        assert one.judge([("a", None), ("new", None), ("b", None)]).answers == [None, None, None]
