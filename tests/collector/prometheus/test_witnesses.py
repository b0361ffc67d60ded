"""Several scrapers of one GPU are witnesses of one series: one is believed at a time, the others in its gaps."""

import random
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from collector.prometheus.client import SeriesAnswer
from collector.prometheus.gathering import Gathering, Witnesses
from collector.prometheus.labels import Namesakes, Subject
from collector.prometheus.names import catalogue
from collector.prometheus.pivot import LONGEST_STEP, REACH
from collector.prometheus.receiver import Receiver
from tests.collector.prometheus.test_receiver import began, receiver, told, writer
from tests.collector.prometheus.writes import STEP, Series, labels

T0 = 1_792_800_000_000
SPAN = 4 * 3_600_000
METRICS = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")
__all__ = ["receiver", "writer"]  # fixtures


@dataclass(frozen=True)
class Scraper:
    """One of the witnesses: what it adds to the labels, and when it scraped, milliseconds UTC."""

    labels: dict[str, str]
    times: list[int]


def scrapers(choose: random.Random) -> tuple[int, list[Scraper]]:
    """Return the time between scrapes and one to three witnesses, each with outages of its own."""
    step = choose.choice((15_000, 30_000, 60_000))
    found = []
    for name in "abc"[: choose.randrange(1, 4)]:
        first = T0 - 600_000 + choose.randrange(step)
        times = list(range(first, T0 + SPAN + 1, step))
        for _ in range(choose.randrange(4)):
            start = T0 + choose.randrange(SPAN)
            end = start + choose.choice((step, 5 * step, 3_600_000))
            times = [at for at in times if not start <= at < end]
        key = choose.choice(("prometheus_replica", "replica", "job", "monitor"))
        found.append(Scraper({key: name}, times))
    return step, found


def answer(metric: str, witnesses: list[Scraper], since: int, until: int, choose: random.Random) -> SeriesAnswer:
    """Return what a server tells of a window: each witness in series that begin anew where a holder does."""
    series: list[tuple[dict[str, str], list[int]]] = []
    for one in witnesses:
        inside = [at for at in one.times if since <= at <= until]
        cut = choose.randrange(len(inside) + 1)
        named = labels(metric) | {"job": "dcgm", **one.labels}
        series += [(named, inside[:cut]), (named | {"exported_pod": "p", "exported_namespace": "n"}, inside[cut:])]
    choose.shuffle(series)
    series = [(named, times) for named, times in series if times]
    times = [at for _, listed in series for at in listed]
    values = [float(at - T0 + 10_000_000) if "ENERGY" in metric else 50.0 for at in times]
    return SeriesAnswer(
        [named for named, _ in series], [len(one) for _, one in series], pa.array(times, pa.int64()), pa.array(values)
    )


def rows(witnesses: list[Scraper], choose: random.Random) -> list[dict[str, Any]]:
    """Return the rows of all windows, in order."""
    memory: Witnesses = {}
    found: list[dict[str, Any]] = []
    edges = [T0, *sorted(T0 + choose.randrange(SPAN) for _ in range(choose.randrange(4))), T0 + SPAN]
    for since, until in pairwise(edges):
        gathering = Gathering(witnesses=memory)
        for metric in METRICS:
            gathering.add(
                catalogue()[metric], answer(metric, witnesses, since - round(LONGEST_STEP * REACH), until, choose)
            )
        found += gathering.rows(since, until).tables.get("gpu_samples", pa.table({})).to_pylist()
    return sorted(found, key=lambda row: int(row["started_at"]))


def seen(times: list[int], step: int) -> int:
    """Return for how long one witness alone would cover the span, milliseconds."""
    pairs = [(max(before, T0), after) for before, after in pairwise(sorted(times)) if after - before <= REACH * step]
    return sum(max(0, after - before) for before, after in pairs)


@pytest.mark.parametrize("seed", range(200))
def test_no_time_and_no_energy_counts_twice_and_none_is_lost(seed: int) -> None:
    """Whatever the scrapers missed, and however the pull was cut: the best of them is the least that is covered."""
    choose = random.Random(seed)
    step, witnesses = scrapers(choose)
    found = rows(witnesses, choose)
    spans = [(row["started_at"] // 1000, row["ended_at"] // 1000) for row in found]
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    covered = sum(end - max(start, T0) for start, end in spans)
    best = max(seen(one.times, step) for one in witnesses)
    assert best - 4 * REACH * step <= covered <= SPAN + step
    for (start, end), row in zip(spans, found, strict=True):
        assert row["energy_joules"] == pytest.approx((end - start) / 1000)
        assert row["utilization_ratio"] == 0.5


def test_one_in_the_gaps_of_the_other_covers_all() -> None:
    """Each was away for an hour, and never both."""
    times = list(range(T0 - 600_000, T0 + SPAN + 1, 30_000))
    away = [at for at in times if not T0 + 3_600_000 <= at < T0 + 7_200_000]
    late = [at + 10_000 for at in times if not T0 + 9_000_000 <= at < T0 + 12_000_000]
    found = rows([Scraper({"replica": "a"}, away), Scraper({"replica": "b"}, late)], random.Random(3))
    assert sum(row["ended_at"] - max(row["started_at"], T0 * 1000) for row in found) >= (SPAN - 120_000) * 1000


def spans(writer: Any) -> list[tuple[int, int]]:
    """Return the rows of remote write, milliseconds from the first."""
    with writer._store.session() as session:
        found = session.rows("SELECT started_at // 1000, ended_at // 1000 FROM gpu_samples ORDER BY ALL")
    return [(int(start), int(end)) for start, end in found]


def scrape(at: int, more: dict[str, str]) -> list[Series]:
    """Return one scrape of one GPU."""
    return [(labels("DCGM_FI_DEV_GPU_UTIL") | more, [(at, 50.0)])]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"prometheus_replica": "a"}, {"prometheus_replica": "b"}),
        ({"instance": "n14:9400"}, {"instance": "10.0.0.14:9400"}),
        ({"job": "dcgm"}, {"job": "dcgm-again"}),
    ],
)
def test_of_two_that_write_one_gpu_one_is_believed_until_it_is_silent(
    receiver: Receiver, writer: Any, first: dict[str, str], second: dict[str, str]
) -> None:
    """An HA pair may send twice; when one of it goes away the other is taken, and what comes late of it is not."""
    at = began()
    for number in range(8):
        told(receiver, scrape(at + number * STEP, first))
        told(receiver, scrape(at + number * STEP + 7000, second))
    for number in range(8, 20):
        told(receiver, scrape(at + number * STEP + 7000, second))
    told(receiver, scrape(at + 9 * STEP, first))  # its backlog
    found = [(start - at, end - at) for start, end in spans(writer)]
    assert found[:7] == [(number * STEP, (number + 1) * STEP) for number in range(7)]
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    assert found[-1] == (18 * STEP + 7000, 19 * STEP + 7000)
    assert found[7][0] <= 12 * STEP


def test_an_exporters_own_pod_that_is_learned_holds_nothing_from_then_on(receiver: Receiver, writer: Any) -> None:
    """`up` tells of targets alone; the pod that it has holds no GPU, whatever it is called."""
    at = began()
    own = {"pod": "telemetry-7", "namespace": "monitoring"}
    told(receiver, [({"__name__": "up", "instance": "n14:9400", "job": "dcgm", **own}, [(at, 1.0)])])
    for number in range(3):
        told(receiver, scrape(at + number * STEP, own))
    with writer._store.session() as session:
        assert session.rows("SELECT run_id FROM allocations") == []
    assert len(spans(writer)) == 2


def gpu(at: int, number: int, **more: str) -> list[Series]:
    """Return one scrape of a GPU that has number 0 on host n14."""
    return [(labels("DCGM_FI_DEV_GPU_UTIL", number) | {"gpu": "0"} | more, [(at, 50.0)])]


@pytest.mark.parametrize("label", ["cluster", "k8s_cluster_name", "site"])
def test_hosts_of_two_clusters_with_one_name_are_refused_and_said_to_be_two(
    receiver: Receiver, writer: Any, label: str
) -> None:
    """As one they would have twice the GPUs, and each other's processors and disks."""
    at, east, west = began(), {label: "east"}, {label: "west"}
    answers = []
    for scraped in range(4):
        when = at + scraped * STEP
        host = [({"__name__": "node_memory_MemTotal_bytes", "instance": "n14:9100", "job": "n"} | west, [(when, 9e9)])]
        answers += [told(receiver, gpu(when, 1, **east)), told(receiver, gpu(when, 2, **west)), told(receiver, host)]
    assert [one.refused for one in answers[:3]] == [0, 1, 1]
    assert {one.refused for one in answers[1::3]} == {1}
    assert f'hosts called n14 of {label}="east" and of {label}="west"' in (answers[1].why or "")
    told(receiver, gpu(at + 4 * STEP, 2, node="west-n14", **west))
    with writer._store.session() as session:
        assert session.rows("SELECT DISTINCT gpu_uuid FROM gpu_samples") == [("GPU-1",)]


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, {}), ({"instance": "a:1"}, {"instance": "b:1"}), ({"cluster": "east"}, {"cluster": "east"})],
)
def test_a_gpu_that_took_anothers_number_is_no_other_cluster(
    receiver: Receiver, before: dict[str, str], after: dict[str, str]
) -> None:
    """Where a GPU is lost, an exporter that begins anew counts the others differently."""
    at = began()
    assert told(receiver, gpu(at, 1, **before)).refused == 0
    assert told(receiver, gpu(at + STEP, 2, **after)).refused == 0


@pytest.mark.parametrize(
    ("silent", "label", "is_kept"), [(500.0, "cluster", True), (700.0, "cluster", False), (70.0, "rack", False)]
)
def test_a_cluster_that_went_silent_gives_its_hosts_names_back(silent: float, label: str, is_kept: bool) -> None:
    """The other one then counts, and not for ever nobody."""
    known, one, other = Namesakes(), *(Subject("gpu_samples", "n", (("gpu_uuid", uuid),)) for uuid in "ab")
    assert known.foreign(one, 0, lambda: {label: "east"}, 0.0) is None
    found = known.foreign(other, 0, lambda: {label: "west"}, silent)
    assert found == ((label, "east", "west") if is_kept else None)
