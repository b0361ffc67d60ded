"""What stands where, over the API."""

from tests.analyzer.interfaces.api_sites import Site


def test_racks_sum_to_the_site(small: Site) -> None:
    """Every host is in one rack, or in the row of those whose rack nobody has told."""
    document = small.json("/v1/topology")
    assert sum(rack["nodes"] for rack in document["racks"]) == document["nodes"] == len(document["items"])
    assert sum(rack["gpus"] for rack in document["racks"]) == document["gpus"]
    assert {rack["rack"] for rack in document["racks"]} == {"rack-1", "rack-2", "rack-3"}


def test_gpus_are_those_that_the_ledger_books(small: Site) -> None:
    """One figure everywhere: the hosts are those of the ledger's newest hour."""
    document = small.json("/v1/topology")
    rows = small.items("/v1/ledger?since=2025-11-10&by=node&by=gpu")
    assert document["gpus"] == len({row["gpu_uuid"] for row in rows})
    assert {node["node"] for node in document["items"]} == {row["node"] for row in rows}


def test_a_listing_of_one_rack(small: Site) -> None:
    """What is counted is what is asked for."""
    document = small.json("/v1/topology?rack=rack-3")
    assert [node["node"] for node in document["items"]] == ["z0"]
    assert (document["nodes"], document["racks"]) == (1, [{"rack": "rack-3", "nodes": 1, "gpus": 1}])


def test_pages_of_hosts_follow_one_another(small: Site) -> None:
    """By name, each host once."""
    whole = small.json("/v1/topology")["items"]
    assert small.items("/v1/topology?limit=3") == whole
    assert [node["node"] for node in whole] == sorted(node["node"] for node in whole)


def test_places_belong_to_no_team(small: Site) -> None:
    """A team's key sees where things stand, and no figure of what others do there."""
    assert small.json("/v1/topology", "holders")["items"] == small.json("/v1/topology")["items"]
