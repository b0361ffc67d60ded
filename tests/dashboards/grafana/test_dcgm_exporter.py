"""The dashboard for dcgm-exporter on what real ones said: recorded pages, scraped by a real Prometheus."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from tests.collector.prometheus.servers import Exporter, prometheus
from tests.dashboards.grafana.boards import queries
from tests.dashboards.grafana.conftest import Asked
from tests.dashboards.grafana.test_data import METRIC, filled
from tests.waiting import until

RECORDED = Path(__file__).parents[2] / "data" / "dcgm_exporter"
# NVIDIA's own counters files have these commented out, and so neither recording has them; their panels say so.
NOT_COLLECTED = {"DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_NVLINK_RX_BYTES", "DCGM_FI_PROF_NVLINK_TX_BYTES"}
PAGES = ("a100_mig", "t4_default")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A Prometheus that scrapes both recordings, each as a host of its own cluster."""
    with ExitStack() as stack:
        jobs = []
        for name in PAGES:
            exporter = stack.enter_context(closing(Exporter()))
            exporter.page = (RECORDED / f"{name}.txt").read_text("utf-8")
            targets = {"targets": [f"127.0.0.1:{exporter.port}"], "labels": {"cluster": name}}
            jobs.append({"job_name": name, "static_configs": [targets]})
        found = Asked(stack.enter_context(prometheus(tmp_path_factory.mktemp("dcgm"), json.dumps(jobs))), "")
        for name in PAGES:  # two scrapes, so that a counter can be asked for its growth
            until(partial(_is_scraped_twice, found, name), f"{name} was scraped twice")
        yield found


def _is_scraped_twice(asked: Asked, cluster: str) -> bool:
    rows = asked.query(f'count_over_time(DCGM_FI_DEV_FB_USED{{cluster="{cluster}"}}[1m])')
    return min((int(row["value"][1]) for row in rows), default=0) >= 2


def test_every_panel_has_data(recorded: Asked) -> None:
    """But for fields that a site has to ask for by name; those panels say how."""
    empty = [each for each in queries("dcgm") if not recorded.query(filled(each.expr))]
    assert {metric for each in empty for metric in METRIC.findall(each.expr)} == NOT_COLLECTED
    assert all("counters files" in each.panel["description"] for each in empty)


@pytest.mark.parametrize("cluster", PAGES)
def test_a_host_is_found_whatever_its_counters_file(recorded: Asked, cluster: str) -> None:
    """One with profiling fields may tell no utilization: a dashboard that asks for it would not know the host."""
    rows = recorded.query(f'DCGM_FI_DEV_FB_USED{{cluster="{cluster}"}}')
    assert len(rows) == 1
    (busy,) = [each for each in queries("dcgm") if each.title == "Utilization"]
    (found,) = recorded.query(filled(busy.expr).replace('cluster=~".*"', f'cluster="{cluster}"'))
    assert float(found["value"][1]) == pytest.approx(99.566 if cluster == "a100_mig" else 0.0, abs=0.01)


def test_the_figures_are_those_that_were_recorded(recorded: Asked) -> None:
    """MiB, MHz and mJ come out in base units."""
    told = {each.title: each for each in queries("dcgm")}

    def of(title: str) -> float:
        expression = filled(told[title].expr).replace('cluster=~".*"', 'cluster="a100_mig"')
        return max(float(row["value"][1]) for row in recorded.query(expression))

    assert of("Power, all") == pytest.approx(409.692)
    assert of("Memory in use") == 4845 * 2**20
    assert of("SM clock") == 1215e6
    assert of("Tensor activity") == pytest.approx(0.930433)
