"""The ledger over HTTP: what is asked for is what is summed, and nothing is lost between pages."""

from itertools import combinations
from typing import Any, get_args

import pytest

from agent.wire.units import HOUR_MS
from analyzer.interfaces.api.costs import Bearer
from analyzer.queries.ledger_query import PEOPLE, Dimension
from analyzer.states import BOOKINGS, CLASSES
from tests.analyzer.interfaces.api_sites import Site

WHOLE = 187_200_000  # 26 GPUs for two hours
AMOUNTS = ("milliseconds", "cost_micros", "unpriced_milliseconds")


def units(text: str) -> int:
    """Return a displayed amount in its last decimal."""
    return int(text.replace("$", "").replace(",", "").replace(".", ""))


def whose(by: str) -> str | None:
    """Return the key that may ask by this: names of people are not for everybody."""
    return "admin" if by in PEOPLE else None


def sums(items: list[Any], name: str) -> int:
    """Return the sum of an amount; what is unknown is not counted."""
    return sum(item[name] or 0 for item in items)


@pytest.mark.parametrize("by", get_args(Dimension))
def test_every_way_of_grouping_sums_to_the_whole(small: Site, by: str) -> None:
    """Two questions about the same time must not get two answers; what is shown adds up too."""
    page = small.json(f"/v1/ledger?by={by}&limit=1000", whose(by))
    for name in AMOUNTS:
        assert sums(page["items"], name) == page["total"][name]
    for name in ("gpu_hours", "cost"):
        assert sum(units(item["display"][name]) for item in page["items"]) == units(page["total"]["display"][name])
    assert page["total"]["milliseconds"] == WHOLE


@pytest.mark.parametrize("by", list(combinations(("team", "class", "hour", "gpu", "node_group"), 3)))
def test_pages_are_the_listing_in_pieces(small: Site, by: tuple[str, ...]) -> None:
    """Each row comes once, in one order, however small the pages; also where a value is null."""
    query = "&".join(f"by={name}" for name in by)
    whole = small.json(f"/v1/ledger?{query}&limit=1000")["items"]
    assert len(whole) > 3
    assert small.items(f"/v1/ledger?{query}&limit=3") == whole


@pytest.mark.parametrize("by", get_args(Bearer))
def test_costs_are_told_by_class_and_sum(small: Site, by: str) -> None:
    """The five classes are the bearer's cost, the bearers' costs the site's: exactly, and as shown."""
    page = small.json(f"/v1/costs?by={by}&limit=1000", whose(by))
    for item in page["items"]:
        assert list(item["classes"]) == list(CLASSES)
        parts = list(item["classes"].values())
        assert sums(parts, "milliseconds") == item["milliseconds"]
        assert sums(parts, "cost_micros") == item["cost_micros"]
        assert sum(units(part["display"]["gpu_hours"]) for part in parts) == units(item["display"]["gpu_hours"])
        shown = sum(units(part["display"]["cost"]) for part in parts if part["display"]["cost"] is not None)
        assert shown == units(item["display"]["cost"])
    assert sums(page["items"], "cost_micros") == page["total"]["cost_micros"] == WHOLE * 2_600_000 // HOUR_MS
    costs = [item["cost_micros"] for item in page["items"]]
    assert costs == sorted(costs, reverse=True)
    assert small.items(f"/v1/costs?by={by}&limit=2", whose(by)) == page["items"]


@pytest.mark.parametrize("path", ["/v1/costs?by=user", "/v1/ledger?by=user&by=state", "/v1/read?what=week&by=user"])
def test_people_are_named_to_owners_and_admins_alone(small: Site, path: str) -> None:
    """A board in a corridor shows money by team; whose name stands beside it is for who answers for them."""
    answer = small.get(path, "workers" if "read?" not in path else None)
    assert answer.status_code == 403
    assert small.get(path).status_code == 403
    assert small.get(path, "admin").status_code == 200


def test_a_part_is_a_part(small: Site) -> None:
    """A filter selects rows, and the parts by that filter's values sum to the whole."""
    teams = [small.json(f"/v1/ledger?team={team}")["total"]["milliseconds"] for team in ("holders", "workers")]
    held = small.json("/v1/ledger?held=true")["total"]["milliseconds"]
    unmapped = [row for row in small.json("/v1/ledger?by=team&held=true")["items"] if row["team"] is None]
    assert sum(teams) + sums(unmapped, "milliseconds") == held
    both = small.json("/v1/ledger?team=holders&team=workers")["total"]["milliseconds"]
    assert both == sum(teams)
    avoidable = small.json("/v1/ledger?class=avoidable&by=state&by=cause")
    assert {(row["state"], row["cause"]) for row in avoidable["items"]} <= {
        (booking.state, booking.cause) for booking in BOOKINGS if booking.klass == "avoidable"
    }
    assert small.json("/v1/ledger?state=starved&cause=storage&run=storage")["total"]["milliseconds"] > 0
    assert small.json("/v1/ledger?status=final")["items"] == []


def test_a_run_is_named_as_people_name_it(small: Site) -> None:
    """Its whole id, any end of it that is its own, or its name."""
    answers = [small.json(f"/v1/ledger?run={name}")["total"] for name in ("notebook", "slurm/alpha/notebook")]
    assert answers[0] == answers[1]
    assert small.get("/v1/ledger?run=nobody-knows").status_code == 404


def test_an_hour_without_a_row_sums_to_nothing(small: Site) -> None:
    """A period before the ledger is empty, and what it cost is not known; nothing of a known one costs nothing."""
    page = small.json("/v1/ledger?since=2025-10-01&until=2025-10-02")
    assert (page["items"], page["total"]["cost_micros"], page["hours"]["known"]) == ([], None, 0)
    none = small.json("/v1/ledger?state=headroom")
    assert (none["items"], none["total"]["cost_micros"], none["total"]["display"]["cost"]) == ([], 0, "$0.00")
    (cost,) = small.json("/v1/costs?by=run&run=never-used")["items"]
    assert (cost["classes"]["useful"]["cost_micros"], cost["classes"]["useful"]["milliseconds"]) == (0, 0)


def test_days_are_those_of_the_site(small: Site) -> None:
    """In Berlin the ledger's two hours, from midnight UTC on, lie in Monday."""
    (row,) = small.json("/v1/ledger?by=day&since=2025-11-10")["items"]
    assert (row["day"], row["day_start"]) == ("2025-11-10", 1_762_729_200_000_000)
    hours = small.json("/v1/ledger?by=hour&since=2025-11-10")["items"]
    assert [row["hour_iso"] for row in hours] == ["2025-11-10T00:00:00Z", "2025-11-10T01:00:00Z"]


def test_hours_say_how_settled_and_how_measured_they_are(small: Site) -> None:
    """Finance books what is final; the others may change."""
    page = small.json("/v1/hours?since=2025-11-10")
    assert [hour["milliseconds"] for hour in page["items"]] == [WHOLE // 2, WHOLE // 2]
    assert {hour["gpus"] for hour in page["items"]} == {26}
    assert page["hours"] == small.json("/v1/ledger?since=2025-11-10")["hours"]
    assert small.items("/v1/hours?since=2025-11-10&limit=1") == page["items"]
    assert small.json("/v1/hours?since=2025-11-10&status=final")["items"] == []
