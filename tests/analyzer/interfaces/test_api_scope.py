"""A team's key sees its team: not the others' rows, and not their sums."""

from collections.abc import Iterator

import pytest

from analyzer.reports.filtered_reader import confine
from analyzer.reports.request import LedgerFilter
from tests.analyzer.interfaces.api_sites import Site, site
from tests.analyzer.small_site import T

READINGS = (
    "/v1/runs",
    "/v1/ledger",
    "/v1/costs",
    "/v1/findings",
    "/v1/recommendations",
    "/v1/adjustments",
    "/v1/hours",
)
TEAMS = ("holders", "workers")


def test_two_teams_see_what_is_theirs(small: Site) -> None:
    """Together they see less than the site, for what is unmapped or free is neither's."""
    whole = small.json("/v1/ledger")["total"]["milliseconds"]
    own = {team: small.json("/v1/ledger", team)["total"]["milliseconds"] for team in TEAMS}
    by_team = {row["team"]: row["milliseconds"] for row in small.json("/v1/ledger?by=team&held=true")["items"]}
    assert own == {team: by_team[team] for team in TEAMS}
    assert 0 < sum(own.values()) < whole


@pytest.mark.parametrize("team", TEAMS)
def test_each_reading_is_that_of_the_team(small: Site, team: str) -> None:
    """What a team reads is what the site reads of that team: the same ids, the same figures."""
    assert small.items("/v1/runs", team) == small.items(f"/v1/runs?team={team}")
    assert small.json("/v1/costs?by=run", team)["items"] == small.json(f"/v1/costs?by=run&team={team}")["items"]
    assert small.items("/v1/findings", team) == small.items(f"/v1/findings?team={team}")
    assert small.items("/v1/recommendations", team) == small.items(f"/v1/recommendations?team={team}")
    mine = sum(hour["milliseconds"] for hour in small.items("/v1/hours?since=2025-11-10", team))
    assert mine == small.json(f"/v1/ledger?team={team}")["total"]["milliseconds"]
    assert small.json("/v1/profiles", team)["total"] == small.json(f"/v1/profiles?team={team}")["total"]


@pytest.mark.parametrize("team", TEAMS)
def test_a_run_is_told_to_its_team_as_to_the_site(small: Site, team: str) -> None:
    """Its details too, which are made of samples: those name no run, and a team was told that there were none."""
    paths = [f"/v1/runs/{run['run_id']}?details=true" for run in small.items("/v1/runs", team)]
    told = [small.json(path, team) for path in paths]
    assert told == [small.json(path) for path in paths]
    assert any("samples in a row" in str(one) for one in told)


@pytest.mark.parametrize("path", ["", "/profile", "/series", "/traffic"])
def test_the_runs_of_others_are_not_there(small: Site, path: str) -> None:
    """404 and not 403: that it exists is already theirs."""
    assert small.get(f"/v1/runs/notebook{path}", "holders").status_code == 200
    assert small.get(f"/v1/runs/notebook{path}", "workers").status_code == 404
    assert small.get("/v1/ledger?run=notebook", "workers").status_code == 404
    theirs = small.json("/v1/findings?team=holders")["items"][0]["id"]
    assert small.get(f"/v1/findings/{theirs}", "workers").status_code == 404
    assert small.get(f"/v1/findings/{theirs}", "holders").status_code == 200


@pytest.mark.parametrize("path", READINGS)
def test_a_team_without_runs_sees_nothing(small: Site, path: str) -> None:
    """And gets an answer all the same."""
    document = small.json(path, "nobody's")
    kept = document["items"] if path != "/v1/hours" else [each for each in document["items"] if each["milliseconds"]]
    assert kept == []
    if "total" in document:
        assert document["total"]["milliseconds"] == 0


def test_an_etag_is_of_who_asks(small: Site) -> None:
    """One team's answer must never be what another is told it has."""
    tags = {small.get("/v1/ledger", team).headers["etag"] for team in (None, *TEAMS)}
    assert len(tags) == 3
    theirs = small.get("/v1/ledger", "holders").headers["etag"]
    answer = small.get("/v1/ledger", "workers", **{"If-None-Match": theirs})
    assert answer.status_code == 200


def test_a_cursor_is_of_who_asks(small: Site) -> None:
    """Nor does it lead into another's listing."""
    cursor = small.json("/v1/runs?limit=1", "workers")["next_cursor"]
    assert small.get(f"/v1/runs?limit=1&cursor={cursor}", "workers").status_code == 200
    assert small.get(f"/v1/runs?limit=1&cursor={cursor}", "holders").status_code == 404
    assert small.get(f"/v1/runs?limit=1&cursor={cursor}").status_code == 404


def test_a_table_that_nobody_thought_of_is_empty(small: Site) -> None:
    """What a later release adds is unseen until it is known whose it is."""
    with small.fleet.store.session() as session:
        session.execute("CREATE TABLE IF NOT EXISTS secrets AS SELECT 42 AS salary")
        with small.fleet.store.session() as own:
            confine(own, LedgerFilter(teams=("holders",)))
            assert own.rows("SELECT * FROM secrets") == []
            assert own.rows("SELECT * FROM gpu_samples") == []
            assert own.row("SELECT count(DISTINCT run_id) FROM allocations") == (5,)
        session.execute("DROP TABLE secrets")


def test_a_teams_name_is_text(small: Site) -> None:
    """A quote in it ends nothing."""
    with small.fleet.store.session() as session:
        confine(session, LedgerFilter(teams=("x') OR true --", "holders")))
        assert session.row("SELECT count(*) FROM runs") == (5,)
        assert session.row("SELECT count(DISTINCT run_id) FROM ledger") == (5,)


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a site where a run of one team was another's in an hour that has closed."""
    with site(tmp_path_factory.mktemp("moved")) as running:
        with running.fleet.store.session() as session:
            session.execute(
                "INSERT INTO closed_runs (hour, run_id, name, team) "
                "SELECT ?, run_id, name, 'workers' FROM runs WHERE run_id LIKE '%/notebook'",
                [T],
            )
        yield running


@pytest.mark.parametrize("team", TEAMS)
def test_of_a_finding_of_two_teams_each_sees_its_part(moved: Site, team: str) -> None:
    """Listed or asked for by its id, by the command's question and by the API: the same part."""
    read = moved.json("/v1/read?what=findings&format=json&since=2025-11-10", team)["findings"]
    listed = moved.items("/v1/findings?since=2025-11-10", team)
    assert [one["id"] for one in listed] == [one["id"] for one in read]
    assert [one["milliseconds"] for one in listed] == [one["milliseconds"] for one in read]
    for one in listed:
        alone = moved.json(f"/v1/findings/{one['id']}?since=2025-11-10", team)["finding"]
        assert {**alone, "display": None} == {**one, "display": None}
    if team == "workers":
        avoidable = moved.json("/v1/ledger?class=avoidable&by=class", team)["total"]
        assert sum(one["milliseconds"] for one in listed) == avoidable["milliseconds"]


@pytest.mark.parametrize("team", TEAMS)
def test_a_run_is_read_alike_by_command_and_api(moved: Site, team: str) -> None:
    """Who may read /v1/runs/{id} may ask the question that the command asks, and is told the same."""
    told = moved.json("/v1/read?what=run&subject=notebook&format=json", team)
    same = moved.json("/v1/runs/notebook?details=true", team)
    assert {**told, "generation": None} == {**same, "generation": None}
    runs = moved.json("/v1/read?what=runs&format=json&since=2025-11-10", team)["runs"]
    assert {one["run_id"] for one in runs} == {one["run_id"] for one in moved.items("/v1/runs", team)}
    savings = moved.json("/v1/read?what=savings&format=json", team)
    assert savings["items"] == moved.json("/v1/savings", team)["items"]
