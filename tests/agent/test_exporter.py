"""The host's /metrics: the contract's names, fresh values alone, and one golden scrape byte for byte."""

from collections.abc import Callable

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agent.metrics.families import Scraped, registry
from agent.metrics.snapshot import Snapshot
from agent.sampling.sampler import Stamped
from agent.source import Value
from agent.wire.units import SECOND_US
from tests.fake_clock import FakeClock

SECOND = SECOND_US
ROW: dict[str, Value] = {"gpu_uuid": "GPU-0", "up": True}
XIDS = {"GPU-5a1c": {"hardware": 0, "program": 1, "other": 0}}


def said(clock: FakeClock, **tables: list[dict[str, Value]]) -> list[Stamped]:
    """Return rows as stamped at this moment, of a source that is read every second."""
    return [Stamped("test", SECOND, clock.wall() - SECOND, clock.wall(), tables)]


def scrape(snapshot: Snapshot) -> str:
    """Return what a scrape says."""
    return generate_latest(registry(snapshot)).decode()


def values(text: str) -> dict[tuple[str, str], float]:
    """Return every sample of a scrape by its name and its first label."""
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name != "gpuledger_agent_build_info"  # always there
    }


def test_a_whole_scrape(golden: Callable[[str, str], None]) -> None:
    """Dashboards and rules are written against these bytes; a change of any of them must be meant."""
    clock = FakeClock()
    snapshot = Snapshot(clock.wall)
    for beat in range(3):
        clock.advance(SECOND)
        gpu: dict[str, Value] = {
            "gpu_uuid": "GPU-5a1c",
            "up": True,
            "utilization_ratio": 0.75,
            "memory_used_bytes": 68_719_476_736,
            "sm_active_ratio": 0.5,
            "pcie_receive_bytes": 1000,
            "power_watts": 412.5,
            "energy_joules": 412.5,
            "energy_joules_total": 10_000.0 + 412.5 * beat,
            "temperature_celsius": 61.0,
            "throttle_power_seconds": 0.25,
            "xid_events": 0,
        }
        lost: dict[str, Value] = {"gpu_uuid": "GPU-9e77", "up": False}
        snapshot.observe(
            said(
                clock,
                gpu_samples=[gpu, lost],
                host_samples=[{"cpu_busy_ratio": 0.25, "memory_used_bytes": 2**34}],
                disk_samples=[{"device": 'odd"name\\', "mount_kind": "block", "read_bytes": 4096}],
                network_samples=[{"device": "mlx5_0/1", "link_kind": "infiniband", "receive_bytes": 10**9}],
                process_samples=[{"run_id": "slurm/alpha/81234", "gpu_uuid": None, "pid": 5, "cpu_seconds": 0.5}],
                agent_samples=[{"cpu_seconds": 0.001, "rss_bytes": 45_000_000, "gaps": 0, "beats_late": 1}],
                inventory=[{"gpu_uuid": "GPU-5a1c", "gpu_index": 0, "sku": "H100-80GB"}] if beat == 0 else [],
            )
        )
    golden(
        "metrics.txt",
        generate_latest(registry(snapshot, Scraped(xids=lambda: XIDS, version="1.2.3", node="n1"))).decode(),
    )


def test_amounts_add_up_and_gauges_do_not() -> None:
    """A scrape every minute must see what sixty beats moved."""
    clock = FakeClock()
    snapshot = Snapshot(clock.wall)
    for _ in range(5):
        snapshot.observe(said(clock, gpu_samples=[ROW | {"pcie_receive_bytes": 10, "power_watts": 300.0}]))
    found = values(scrape(snapshot))
    assert found["gpuledger_gpu_pcie_receive_bytes_total", "GPU-0"] == 50
    assert found["gpuledger_gpu_power_watts", "GPU-0"] == 300.0


def test_a_vanished_series_vanishes() -> None:
    """A GPU off the list, a run that ended: their last value must not stand for ever."""
    clock = FakeClock()
    snapshot = Snapshot(clock.wall)
    snapshot.observe(said(clock, gpu_samples=[ROW, ROW | {"gpu_uuid": "GPU-1"}]))
    snapshot.observe(said(clock, gpu_samples=[ROW]))
    assert {label for name, label in values(scrape(snapshot)) if name == "gpuledger_gpu_up"} == {"GPU-0"}


def test_what_is_stale_is_not_shown() -> None:
    """A hung driver must look like silence, not like a steady load."""
    clock = FakeClock()
    snapshot = Snapshot(clock.wall)
    snapshot.observe(said(clock, gpu_samples=[ROW]))
    clock.advance(3 * SECOND)
    assert values(scrape(snapshot))
    clock.advance(1)
    assert values(scrape(snapshot)) == {}


def test_what_was_not_reported_has_no_series() -> None:
    """None is not 0, on a dashboard least of all."""
    clock = FakeClock()
    snapshot = Snapshot(clock.wall)
    snapshot.observe(said(clock, gpu_samples=[{"gpu_uuid": "GPU-0", "up": False, "power_watts": None}]))
    assert values(scrape(snapshot)) == {("gpuledger_gpu_up", "GPU-0"): 0.0}


def test_a_counter_that_returns_begins_anew() -> None:
    """Totals of what is gone are forgotten: memory stays that of one reading; rate() takes a reset."""
    clock = FakeClock()
    snapshot = Snapshot(clock.wall)
    for rows in ([ROW | {"pcie_receive_bytes": 10}], [], [ROW | {"pcie_receive_bytes": 3}]):
        snapshot.observe(said(clock, gpu_samples=rows))
    assert values(scrape(snapshot))["gpuledger_gpu_pcie_receive_bytes_total", "GPU-0"] == 3
