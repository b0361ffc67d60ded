"""Findings and recommendations over HTTP: the list is the analyzer's own, and says what a program needs."""

from tests.analyzer.interfaces.api_sites import Site


def test_findings_sum_to_what_is_avoidable(small: Site) -> None:
    """At stake in findings is what the ledger calls avoidable: nothing twice, nothing forgotten."""
    found = small.items("/v1/findings?limit=4")
    avoidable = small.json("/v1/ledger?class=avoidable&by=class")["total"]
    assert sum(finding["milliseconds"] for finding in found) == avoidable["milliseconds"]
    assert sum(finding["at_stake_micros"] for finding in found) == avoidable["cost_micros"]
    assert found == small.json("/v1/findings?limit=1000")["items"]
    stakes = [finding["at_stake_micros"] for finding in found]
    assert stakes == sorted(stakes, reverse=True)


def test_suspicions_are_listed_when_asked_for(small: Site) -> None:
    """They claim nothing, and so nobody reads them by chance."""
    sure = {finding["id"] for finding in small.items("/v1/findings")}
    everything = small.items("/v1/findings?suspicions=true")
    assert sure == {finding["id"] for finding in everything if not finding["suspicion"]}


def test_findings_are_found_by_what_they_are(small: Site) -> None:
    """Each filter keeps those it names."""
    whole = small.items("/v1/findings")
    for name in ("team", "state", "cause", "confidence"):
        for value in {finding[name] for finding in whole if finding[name]}:
            kept = small.items(f"/v1/findings?{name}={value}")
            assert kept
            assert [one["id"] for one in kept] == [one["id"] for one in whole if one[name] == value]
    (one,) = small.items("/v1/findings?run=storage")
    assert one["run_ids"] == ["slurm/alpha/storage"]


def test_one_finding_is_as_in_the_list(small: Site) -> None:
    """With what is recommended against it."""
    for finding in small.items("/v1/findings"):
        document = small.json(f"/v1/findings/{finding['id']}")
        assert {**document["finding"], "display": None} == {**finding, "display": None}
    assert small.get("/v1/findings/f-aaaa").status_code == 404
    assert small.get("/v1/findings/nonsense").status_code == 422


def test_a_recommendation_leads_to_its_findings(small: Site) -> None:
    """Who acts wants the lines to paste, and why."""
    advice = small.items("/v1/recommendations?limit=3")
    assert advice == small.json("/v1/recommendations?limit=1000")["items"]
    assert advice == small.json("/v1/read?what=recommend&format=json")["items"]
    known = {finding["id"] for finding in small.items("/v1/findings")}
    for one in advice:
        assert known.issuperset(one["finding_ids"])
        assert one == small.json(f"/v1/recommendations/{one['id']}")["recommendation"]
        listed = small.json(f"/v1/recommendations?finding={one['finding_ids'][0]}")["items"]
        assert one["id"] in {each["id"] for each in listed}
    assert small.get("/v1/recommendations/r-aaaa").status_code == 404


def test_no_recommendation_saves_more_than_is_at_stake(small: Site) -> None:
    """A week's saving of a week's loss; with luck a twentieth more, as what never begins spares its starting."""
    at_stake = {finding["id"]: finding["milliseconds"] for finding in small.items("/v1/findings")}
    for one in small.items("/v1/recommendations"):
        lost = sum(at_stake[each] for each in one["finding_ids"]) * 168 // 2  # two hours of the week are known
        assert one["saves_milliseconds"]["p50"] <= lost
        assert one["saves_milliseconds"]["p95"] * 20 <= lost * 21
