"""The traffic of a run over HTTP: the same figures as the report's, and no other team's."""

from pathlib import Path

from tests.analyzer.interfaces.api_sites import LATER, Site, settings, site
from tests.analyzer.ledger.fleet import HOUR, MONDAY
from tests.analyzer.measures.traffic_small_runs import flows, links

CROSSING = "/v1/runs/crossing/traffic"


def test_a_run_that_alternates_between_racks(small: Site) -> None:
    """Eight hosts, every other in the other rack: eight crossings, of which two would do; all of it estimated."""
    document = small.json(CROSSING)["traffic"]
    racks = document["rings"][0]
    assert (racks["level"], racks["crossings"], racks["contiguous"], racks["interleaved"]) == ("rack", 8, 2, 8)
    assert [host["order"] for host in document["hosts"]] == list(range(8))
    assert {cell["basis"] for cell in document["matrix"]["cells"]} == {"ring"}
    crossed = {one["locality"]: one for one in document["classes"]}["across_racks"]
    assert crossed["bytes"] == crossed["estimated_bytes"] == document["ordered"]["now_bytes"]
    assert document["ordered"]["contiguous_bytes"] == document["ordered"]["now_bytes"] * 2 // 8
    assert document["waited"]["milliseconds"] > 0
    assert document["bills"] == []
    for one in document["matrix"]["balances"]:
        told = one["told_bytes"] + one["other_runs_bytes"]
        if one["link_bytes"] is not None:
            assert told + one["unattributed_bytes"] - one["excess_bytes"] == one["link_bytes"]


def test_of_a_run_whose_links_nobody_told_the_rest_is_unknown(small: Site) -> None:
    """null, and why: not 0."""
    document = small.json("/v1/runs/storage/traffic")["traffic"]
    assert (document["link_bytes"], document["unattributed_bytes"], document["matrix"]["cells"]) == (None, None, [])
    assert document["missing"]
    assert small.get("/v1/runs/of-nobody/traffic").status_code == 404


def test_a_team_sees_its_own_traffic_and_no_sharers(tmp_path: Path) -> None:
    """On a host that two teams share, the links' bytes would tell one what the other moves."""
    with site(tmp_path) as small:
        fleet, end = small.fleet, MONDAY + HOUR
        fleet.own("t0", ["t0g0", "t0g1"])
        fleet.hold("slurm/alpha/notebook2", "t0", ["t0g0"], MONDAY, end)
        fleet.hold("slurm/alpha/storage2", "t0", ["t0g1"], MONDAY, end)
        for gpu in ("t0g0", "t0g1"):
            fleet.sample("t0", gpu, MONDAY, end)
        links(fleet, "t0", "ethernet", 900, 100)
        flows(fleet, "slurm/alpha/notebook2", "t0", "nas1", 400, 10)
        flows(fleet, "slurm/alpha/storage2", "t0", "nas1", 300, 20)
        fleet.analyze(now=LATER, settings=settings(tmp_path))
        whole = small.json("/v1/runs/storage2/traffic")["traffic"]["matrix"]["balances"][0]
        assert (whole["way"], whole["link_bytes"], whole["told_bytes"], whole["other_runs_bytes"]) == (
            "in", 5_400, 1_800, 2_400,
        )  # fmt: skip
        own = small.json("/v1/runs/storage2/traffic", "workers")["traffic"]["matrix"]["balances"][0]
        assert (own["told_bytes"], own["link_bytes"], own["other_runs_bytes"]) == (1_800, None, None)
        assert own["unattributed_bytes"] is None
        assert small.get("/v1/runs/storage2/traffic", "holders").status_code == 404
