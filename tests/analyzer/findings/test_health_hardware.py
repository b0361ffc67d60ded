"""Hardware to look at: facts of links and memory, which claim no money."""

import pytest

from analyzer.findings.health.all_notices import notices_in
from analyzer.findings.health.gpus import Health, hardware_notices
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet

WELL = Health("n1", "GPU-1", 16, 16, 5, 5, recovery_action="none")


def test_a_gpu_that_is_well_is_not_mentioned() -> None:
    """A list of healthy hardware is read by nobody."""
    assert list(hardware_notices([WELL])) == []
    assert list(hardware_notices([Health("n1", "GPU-1")])) == []


@pytest.mark.parametrize(
    ("health", "kind"),
    [
        (Health("n1", "GPU-1", width=8, width_max=16), "pcie_width"),
        (Health("n1", "GPU-1", generation=3, generation_max=5), "pcie_generation"),
        (Health("n1", "GPU-1", remap_pending=True), "memory_rows"),
        (Health("n1", "GPU-1", remap_failure=True, remap_pending=True), "memory_rows"),
        (Health("n1", "GPU-1", recovery_action="gpu_reset"), "recovery"),
    ],
)
def test_each_fact_is_one_notice(health: Health, kind: str) -> None:
    """One GPU with two names for one fault would be counted twice."""
    (notice,) = hardware_notices([health])
    assert notice.rule == f"hardware/{kind}"


def test_a_link_that_rests_is_not_narrow() -> None:
    """An idle link drops to generation 1 to save power: only a busy GPU's generation counts."""
    fleet = Fleet()
    fleet.own("n1", ["idle", "slow"])
    link = {"pcie_width": 16, "pcie_width_max": 16, "pcie_generation_max": 5}
    fleet.sample("n1", "idle", MONDAY, MONDAY + HOUR, utilization_ratio=0.0, pcie_generation=1, **link)
    fleet.sample("n1", "slow", MONDAY, MONDAY + HOUR, utilization_ratio=0.9, pcie_generation=3, **link)
    with fleet.store.session() as session:
        found = notices_in(session, MONDAY, MONDAY + HOUR).notices
        assert notices_in(session, MONDAY + HOUR, MONDAY + HOUR + MINUTE).notices == ()
    assert [(notice.gpu_uuid, notice.rule) for notice in found] == [("slow", "hardware/pcie_generation")]
