"""The same scrapes by remote write, pulled from Prometheus and pulled from VictoriaMetrics: the same rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.prometheus.client import Client, Server
from collector.prometheus.pull import Pulled, pull
from collector.store.database import Store
from tests.collector.prometheus.servers import Exporter, prometheus, victoriametrics
from tests.collector.serving import Running
from tests.waiting import until

SCRAPES = 9
MISSED = 5  # this scrape fails: Prometheus then marks every series as ended
RESET = 7  # before this one the driver was loaded anew
COLUMNS = (
    "node, gpu_uuid, started_at, ended_at, utilization_ratio, memory_used_bytes, energy_joules, energy_joules_total, "
    "pcie_receive_bytes, throttle_power_seconds, sm_active_ratio, xid_events, xid_last"
)


class Page(Exporter):
    """Two GPUs whose numbers move from scrape to scrape."""

    def answered(self) -> str | None:
        """Return the page of the next scrape."""
        self.scrapes += 1
        if self.scrapes == MISSED:
            return None
        count = self.scrapes
        energy = (count - RESET if count >= RESET else count + 1000) * 12_345.678
        lines = []
        for gpu in range(2):
            named = f'gpu="{gpu}",UUID="GPU-{gpu}",Hostname="n14",modelName="NVIDIA A100-SXM4-40GB"'
            for name, value in {
                "DCGM_FI_DEV_GPU_UTIL": 10 * count + gpu,
                "DCGM_FI_DEV_FB_USED": 1000 + count,
                "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": energy,
                "DCGM_FI_PROF_PCIE_RX_BYTES": 1e9 + count,
                "DCGM_FI_DEV_POWER_VIOLATION": 1e6 * count**2,
                "DCGM_FI_PROF_SM_ACTIVE": count / 7,
                "DCGM_FI_DEV_XID_ERRORS": 31 if count > 3 else 0,
            }.items():
                lines.append(f"{name}{{{named}}} {value}")
        return "\n".join(lines) + "\n"


@pytest.fixture
def page() -> Iterator[Page]:
    """The exporter."""
    found = Page()
    try:
        yield found
    finally:
        found.close()


def test_the_same_scrapes_make_the_same_rows(tmp_path: Path, collector: Running, page: Page) -> None:
    """A site may begin with a pull of last month and go on with remote write: nothing may depend on the way."""
    with victoriametrics(tmp_path / "vm") as vm:
        scrape = f"[{{job_name: dcgm, static_configs: [{{targets: ['127.0.0.1:{page.port}']}}]}}]"
        queue = "queue_config: {batch_send_deadline: 100ms}"
        ours = f"http://127.0.0.1:{collector.client.port}/api/v1/write"
        both = f"[{{url: '{ours}', {queue}}}, {{url: '{vm}/api/v1/write', {queue}}}]"
        with prometheus(tmp_path / "prometheus", scrape, both) as url:
            until(lambda: page.scrapes > SCRAPES, "enough was scraped")
            until(lambda: len(_rows(collector.store)) >= 2 * (SCRAPES - 4), "the collector has the rows")
            written = _rows(collector.store)
            last = max(row[3] for row in written)
            first = min(row[2] for row in written) - 3_000_000
            with Client(Server(url)) as client, Store.open(None) as store:
                pulled = pull(client, store, first, last)
                assert _upto(_rows(store), last) == written
                _check(pulled)
            with Client(Server(vm)) as client, Store.open(None) as store:
                assert client.exports
                until(lambda: _newest(client, first, last) >= last // 1000, "VictoriaMetrics shows the last scrape")
                pull(client, store, first, last)
                assert _upto(_rows(store), last) == [pytest.approx(row) for row in written]
    assert {row[4] for row in written}.isdisjoint({0.1 * MISSED, 0.1 * (MISSED + 1)}), "rows beside a missed scrape"


def _check(pulled: Pulled) -> None:
    assert pulled.found.gpus == 2
    assert pulled.found.hosts == 1
    assert pulled.found.scrape_seconds == 1.0
    assert "energy_joules" in pulled.columns["gpu_samples"]
    assert "tensor_active_ratio" not in pulled.columns["gpu_samples"]


def _rows(store: Store) -> list[tuple[Any, ...]]:
    with store.session() as session:
        return session.rows(f"SELECT {COLUMNS} FROM gpu_samples ORDER BY gpu_uuid, started_at")


def _upto(rows: list[tuple[Any, ...]], last: int) -> list[tuple[Any, ...]]:
    return [row for row in rows if row[3] <= last]


def _newest(client: Client, first: int, last: int) -> int:
    answer = client.samples("DCGM_FI_DEV_XID_ERRORS", first // 1000, last // 1000)
    return max(answer.times.to_pylist(), default=0)
