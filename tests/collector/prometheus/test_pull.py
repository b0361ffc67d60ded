"""A history is pulled day by day, each day once, from a real Prometheus and a real VictoriaMetrics."""

import json
import operator
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import Any

import pytest

from agent.wire.units import DAY_US
from collector.errors import ServerError
from collector.prometheus.client import Client, Server
from collector.prometheus.pull import Day, Span, days, pull, windows
from collector.prometheus.survey import survey
from collector.store.database import Store
from tests.collector.importing.server import make_blocks
from tests.collector.prometheus.servers import need, post, prometheus, victoriametrics

BEGAN = int(datetime(2026, 11, 2, tzinfo=UTC).timestamp())  # a Monday's midnight, seconds
DAYS, STEP, GPUS = 2, 60, 3
COUNT = DAYS * 86400 // STEP
SINCE, UNTIL = BEGAN * 10**6, BEGAN * 10**6 + DAYS * DAY_US
DOWN = range(700, 760)  # scrapes that a host missed
HELD = range(100, 900)  # scrapes at which a pod held GPU 1

BEGAN_HOSTS = range(400)  # scrapes of node_exporter

Told = tuple[str, dict[str, str], list[tuple[int, float]]]


def history() -> Iterator[Told]:
    """Yield every series: labels and samples, milliseconds UTC."""
    yield from gpu_history()
    yield from host_history()


def host_history() -> Iterator[Told]:
    """Yield what node_exporter says of a host that has GPUs, by its address, and of one that has none."""
    for instance, nodename in (("10.0.0.1:9100", "n0"), ("10.0.0.9:9100", "login1")):
        named = {"instance": instance, "job": "node"}
        times = {n: (BEGAN + n * STEP) * 1000 + 500 for n in BEGAN_HOSTS}

        def series(name: str, value: Callable[[int], float], **more: str) -> Told:
            return name, named | more, [(at, value(n)) for n, at in times.items()]  # noqa: B023 - used at once

        yield series("node_uname_info", lambda _: 1.0, nodename=nodename)
        for cpu in range(2):
            for mode, share in (("idle", 0.5 + 0.2 * cpu), ("iowait", 0.1), ("user", 0.4)):
                used = partial(operator.mul, share * STEP)
                yield series("node_cpu_seconds_total", used, cpu=str(cpu), mode=mode)
        yield series("node_memory_MemTotal_bytes", lambda _: 2e12)
        yield series("node_memory_MemAvailable_bytes", lambda _: 1.5e12)
        yield series("node_disk_read_bytes_total", lambda n: 1e6 * n, device="nvme0n1")
        yield series("node_disk_read_bytes_total", lambda n: 1e6 * n, device="dm-0")


def gpu_history() -> Iterator[Told]:
    """Yield what dcgm-exporter says."""
    for gpu in range(GPUS):
        named = {"gpu": str(gpu), "UUID": f"GPU-{gpu}", "Hostname": f"n{gpu // 2}", "instance": f"n{gpu // 2}:9400"}
        named |= {"modelName": "NVIDIA H100 80GB HBM3", "job": "dcgm"}
        scrapes = [n for n in range(COUNT) if gpu // 2 == 0 or n not in DOWN]
        times = {n: (BEGAN + n * STEP) * 1000 + 123 + gpu // 2 for n in scrapes}
        pod = {"exported_pod": "train-0", "exported_namespace": "research"}
        for name, value in METRICS.items():
            for labels, held in ((named, False), (named | pod, True)):
                samples = [(at, value(n)) for n, at in times.items() if (gpu == 1 and n in HELD) == held]
                if samples:
                    yield name, labels, samples


METRICS: dict[str, Callable[[int], float]] = {
    "DCGM_FI_DEV_GPU_UTIL": lambda n: n % 101,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": lambda n: 6000.0 * n,
    "DCGM_FI_DEV_FB_USED": lambda n: 70_000.0,
    "DCGM_FI_DEV_FB_FREE": lambda n: 11_012.0,
    "DCGM_FI_DEV_POWER_VIOLATION": lambda n: 1e9 * (n % 500),
}


@pytest.fixture(scope="module", params=["prometheus", "victoriametrics"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that has two days."""
    folder = tmp_path_factory.mktemp("servers")
    if request.param == "victoriametrics":
        with victoriametrics(folder) as server:
            lines = [
                {
                    "metric": {"__name__": name} | labels,
                    "values": [v for _, v in told],
                    "timestamps": [t for t, _ in told],
                }
                for name, labels, told in history()
            ]
            post(server, "/api/v1/import", b"\n".join(json.dumps(line).encode() for line in lines))
            post(server, "/internal/force_flush", b"")
            yield server
        return
    openmetrics = folder / "history.om"
    openmetrics.write_text(_openmetrics())
    need("promtool", "prometheus")
    make_blocks(openmetrics, folder / "data")
    with prometheus(folder, data=folder / "data") as server:
        yield server


def _openmetrics() -> str:
    lines: list[str] = []
    for wanted, series in groupby(sorted(history(), key=lambda one: one[0]), key=lambda one: one[0]):
        lines.append(f"# TYPE {wanted} unknown")
        for name, labels, told in series:
            named = ",".join(f'{key}="{value}"' for key, value in labels.items())
            lines += [f"{name}{{{named}}} {value} {at / 1000:.3f}" for at, value in told]
    return "\n".join([*lines, "# EOF\n"])


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    """Return what a query finds."""
    with store.session() as session:
        return session.rows(sql)


def test_two_days(url: str) -> None:
    """What is there is stored, what is missing stays missing, and both are told."""
    seen: list[tuple[int, int, Day | None]] = []
    with Client(Server(url)) as client, Store.open(None) as store:
        found = survey(client, SINCE, UNTIL)
        pulled = pull(client, store, SINCE, UNTIL, lambda *told: seen.append(told), found=found)
        by_gpu = rows(
            store,
            "SELECT gpu_uuid, node, count(*), sum(energy_joules), count(energy_joules), sum(throttle_power_seconds), "
            "min(started_at), max(ended_at) FROM gpu_samples GROUP BY ALL ORDER BY 1",
        )
        inventory = rows(store, "SELECT DISTINCT gpu_uuid, gpu_index, sku, memory_bytes FROM inventory ORDER BY 1")
    assert (found.gpus, found.hosts, found.scrape_seconds) == (3, 2, 60.0)
    assert found.exporters == ("dcgm-exporter", "node_exporter")
    assert [(done, of) for done, of, _ in seen] == [(0, 2), (1, 2), (2, 2)]
    whole = COUNT - 1
    missed = len(DOWN) + 1  # the first scrape after a gap has none before it
    first = SINCE + 123_000
    last = first + (COUNT - 1) * STEP * 10**6
    throttled = sum(1.0 for n in range(1, COUNT) if n % 500)
    assert by_gpu[:2] == [(f"GPU-{gpu}", "n0", whole, 6.0 * whole, whole, throttled, first, last) for gpu in range(2)]
    assert by_gpu[2][:5] == ("GPU-2", "n1", whole - missed, 6.0 * (whole - missed), whole - missed)
    assert (pulled.expected, pulled.stored) == (3 * COUNT, 3 * whole - missed)
    assert inventory == [(f"GPU-{gpu}", gpu, "H100-80GB", 81_012 * 2**20) for gpu in range(3)]
    assert pulled.columns["gpu_samples"] >= {"utilization_ratio", "energy_joules", "memory_used_bytes"}
    assert "sm_active_ratio" not in pulled.columns["gpu_samples"]


def test_who_held_what(url: str) -> None:
    """Without a scheduler the labels of the exporter are all there is; a stretch over midnight is one."""
    with Client(Server(url)) as client:
        holders = pull(client, None, SINCE, UNTIL).holders.to_pylist()
    first = SINCE + 123_000
    assert holders == [
        {
            "node": "n0",
            "gpu_uuid": "GPU-1",
            "started_at": first + (HELD[0] - 1) * STEP * 10**6,
            "ended_at": first + HELD[-1] * STEP * 10**6,
            "namespace": "research",
            "pod": "train-0",
            "container": None,
            "hpc_job": None,
        }
    ]


def test_a_second_pull_adds_nothing(url: str) -> None:
    """Also where it reaches further: what was there is left, and only the rest is read."""
    with Client(Server(url)) as client, Store.open(None) as store:
        middle = SINCE + DAY_US + 3_600_000_000
        assert [day.repeated for day in pull(client, store, SINCE, middle).days] == [False, False]
        again = pull(client, store, SINCE, UNTIL)
        assert [day.repeated for day in again.days] == [True, True, False]
        third = pull(client, store, SINCE, UNTIL)
        assert all(day.repeated for day in third.days)
        assert again.stored == third.stored == rows(store, "SELECT count(*) FROM gpu_samples")[0][0]
        assert third.columns == again.columns
        with Store.open(None) as other:
            pull(client, other, SINCE, UNTIL)
            sql = "SELECT * EXCLUDE (batch) FROM gpu_samples ORDER BY gpu_uuid, started_at"
            assert rows(other, sql) == rows(store, sql)


def test_a_pull_that_broke_off_goes_on(url: str) -> None:
    """Four weeks are long: a network that fails in the third must not cost the first two."""

    class Failing(Client):
        """Fails in the second day."""

        def samples(self, selector: str, since: int, until: int) -> Any:
            if until * 1000 > SINCE + DAY_US + DAY_US // 2:
                raise ServerError("the network is gone")
            return super().samples(selector, since, until)

        def another(self) -> Client:
            return Failing(self.server)

    with Store.open(None) as store:
        with Client(Server(url)) as client:
            found = survey(client, SINCE, UNTIL)
        with Failing(Server(url)) as client, pytest.raises(ServerError):
            pull(client, store, SINCE, UNTIL, found=found)
        assert rows(
            store, "SELECT count(DISTINCT batch), max(ended_at) <= ? FROM gpu_samples".replace("?", str(SINCE + DAY_US))
        ) == [(1, True)]
        with Client(Server(url)) as client:
            assert [day.repeated for day in pull(client, store, SINCE, UNTIL, found=found).days] == [True, False]
        assert rows(store, "SELECT count(*) FROM gpu_samples WHERE gpu_uuid = 'GPU-0'") == [(COUNT - 1,)]


def test_hosts_beside_their_gpus(url: str) -> None:
    """Only hosts with GPUs are taken, under the name that they give themselves; who is left out is told."""
    tables = ("gpu_samples", "host_samples", "disk_samples")
    with Client(Server(url)) as client, Store.open(None) as store:
        pulled = pull(client, store, SINCE, SINCE + DAY_US // 6, tables=tables)
        host = rows(
            store,
            "SELECT node, count(*), min(ended_at - started_at), avg(cpu_busy_ratio), avg(cpu_iowait_ratio), "
            "max(memory_used_bytes), max(memory_available_bytes) FROM host_samples GROUP BY node",
        )
        disk = rows(store, "SELECT node, device, count(*), sum(read_bytes) FROM disk_samples GROUP BY ALL")
    (node, count, length, busy, iowait, used, available) = host[0]
    assert (len(host), node, length, used, available) == (1, "n0", 4 * STEP * 10**6, 5 * 10**11, 15 * 10**11)
    assert count in (58, 59, 60)
    assert (busy, iowait) == (pytest.approx(0.3, abs=0.01), pytest.approx(0.1, abs=0.01))
    assert disk == [("n0", "nvme0n1", 239, 239e6)]
    assert pulled.notes == (
        "1 hosts of node_exporter have no GPU, or a name that differs from the GPU exporter's "
        "(such as login1 beside n0): left out",
    )
    assert pulled.columns["host_samples"] >= {"cpu_busy_ratio", "memory_used_bytes"}


def test_coarser_rows(url: str) -> None:
    """A year of history need not come scrape by scrape: means of gauges, growth of counters, gaps as they were."""
    with Client(Server(url)) as client, Store.open(None) as store:
        pull(client, store, SINCE, UNTIL, step_seconds=600)
        told = rows(
            store,
            "SELECT count(*), min(ended_at - started_at), max(ended_at - started_at), avg(utilization_ratio), "
            "sum(energy_joules) FROM gpu_samples WHERE gpu_uuid = 'GPU-0'",
        )
    (count, shortest, longest, mean, joules) = told[0]
    assert (shortest, longest) == (600_000_000, 600_000_000)
    assert count in (COUNT // 10 - 1, COUNT // 10)
    assert mean == pytest.approx(0.5, abs=0.01)
    assert joules == pytest.approx(60.0 * count)


def test_a_span_without_anything(url: str) -> None:
    """A wrong --since is no failure: nothing is found, and it is said."""
    with Client(Server(url)) as client, Store.open(None) as store:
        pulled = pull(client, store, SINCE - 40 * DAY_US, SINCE - 39 * DAY_US)
    assert (pulled.found.gpus, pulled.found.scrape_seconds, pulled.stored, pulled.expected) == (0, None, 0, 0)


def test_series_as_they_are_stored(url: str) -> None:
    """Every sample once, with its own time."""
    with Client(Server(url)) as client:
        found = client.samples('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-0"}', SINCE // 1000, UNTIL // 1000 - 1)
    assert sum(found.lengths) == len(found.times) == COUNT
    assert found.labels[0]["Hostname"] == "n0"
    assert found.times[0].as_py() == SINCE // 1000 + 123


def test_days_are_cut_at_midnight_and_around_what_is_there() -> None:
    """Each stretch is asked for once, whoever asked for what before."""
    held = [Span(SINCE + 10, SINCE + DAY_US, 7)]
    assert days(SINCE, SINCE + 2 * DAY_US + 5, held) == [
        Span(SINCE, SINCE + 10),
        held[0],
        Span(SINCE + DAY_US, SINCE + 2 * DAY_US),
        Span(SINCE + 2 * DAY_US, SINCE + 2 * DAY_US + 5),
    ]
    assert windows(Span(0, 25), 10) == [(0, 10), (10, 20), (20, 25)]
