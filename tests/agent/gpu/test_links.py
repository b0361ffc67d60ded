"""NVLink in whichever form the driver counts it, and the PCIe link as it is under load."""

from tests.agent.gpu.conftest import Host
from tests.agent.gpu.fake.build import MIB
from tests.agent.gpu.fake.situations import blackwell


def as_blackwell(host: Host) -> None:
    """Turn the host into one of two B200s."""
    host.scenario = blackwell(host.scenario.path, gpus=2)


def nvlink(row: dict[str, object]) -> tuple[object, object]:
    """Return what a row says was received and sent."""
    return row.get("nvlink_receive_bytes"), row.get("nvlink_transmit_bytes")


def test_blackwell_counts_bytes_of_each_link(host: Host) -> None:
    """Its driver no longer sums up, and no longer counts KiB."""
    as_blackwell(host)
    host.rows()
    host.rows()
    host.scenario.gpu(0, **{"field_202.0": 700, "field_202.17": 300, "field_204.5": 5_000_000_000_000})
    assert nvlink(host.rows()[0]) == (5_000_000_000_000, 1000)


def test_a_driver_that_sums_up_bytes_is_asked_for_the_sum(host: Host) -> None:
    """Two fields rather than thirty-six."""
    as_blackwell(host)
    host.scenario.every(field_202=100, field_204=1000)
    host.rows()
    host.rows()
    host.scenario.every(field_202=150, field_204=1700)
    assert nvlink(host.rows()[0]) == (700, 50)


def test_a_link_that_failed_once_makes_the_sum_unknown_for_its_time(host: Host) -> None:
    """A sum over seventeen of eighteen links is no measurement."""
    as_blackwell(host)
    host.rows()
    host.rows()
    assert nvlink(host.rows()[0]) == (0, 0)
    host.scenario.gpu(0, **{"field_204.5": 10, "fail.field.204": 999})
    assert nvlink(host.rows()[0])[0] is None
    host.scenario.gpu(0, **{"fail.field.204": 0})
    assert nvlink(host.rows()[0])[0] is None
    host.scenario.gpu(0, **{"field_204.5": 17})
    assert nvlink(host.rows()[0])[0] == 7


def test_without_any_counter_gpm_tells(host: Host) -> None:
    """Its rates are of the whole interval too."""
    host.scenario.every(gpm=1, field_138=None, field_139=None, nvlinks=0, gpm_60=7, gpm_61=3)
    host.rows()
    assert nvlink(host.rows(seconds=2)[0]) == (14 * MIB, 6 * MIB)


def test_the_link_is_a_gauge_of_every_row(host: Host) -> None:
    """A GPU in a half-wide slot is slow at every beat, and says so at every beat."""
    host.scenario.gpu(0, pcie_width=8)
    row = [host.rows(seconds=1) for _ in range(3)][-1][0]
    assert (row["pcie_generation"], row["pcie_generation_max"]) == (5, 5)
    assert (row["pcie_width"], row["pcie_width_max"]) == (8, 16)


def test_a_generation_read_while_idle_is_not_repeated_under_load(host: Host) -> None:
    """An idle link trains down to save power; believed under load it would accuse a healthy slot."""
    host.scenario.every(utilization=0, samples_1="none", pcie_generation=1)
    assert [host.rows(seconds=1)[0]["pcie_generation"] for _ in range(2)] == [1, 1]
    host.scenario.every(utilization=90, pcie_generation=5)
    assert host.rows(seconds=1)[0]["pcie_generation"] == 5


def test_links_are_asked_for_now_and_then(host: Host) -> None:
    """They are the same for months."""
    for _ in range(5):
        host.rows(seconds=1)
    counted = host.calls("nvmlDeviceGetMaxPcieLinkWidth")
    host.rows(seconds=1)
    assert host.calls("nvmlDeviceGetMaxPcieLinkWidth") == counted
