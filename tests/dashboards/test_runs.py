"""The page of all runs: what is found, in which order, and for whom."""

import csv
import io
import re
from html import unescape

import httpx
import pytest

from analyzer.reports.run_list import SORTS
from tests.dashboards.keys import guarded, log_in

WEEK = "2026-W46"
ROW = re.compile(r'<td><a href="/runs/([^"]+)" title="([^"]+)">')


def found(client: httpx.Client, query: str = "") -> list[str]:
    """Return the ids on the page, in their order."""
    answer = client.get(f"/runs?{query}")
    assert answer.status_code == 200, answer.text[:300]
    return [unescape(run_id) for _, run_id in ROW.findall(answer.text)]


def sheet(client: httpx.Client, query: str = "") -> list[dict[str, str]]:
    """Return its CSV."""
    return list(csv.DictReader(io.StringIO(client.get(f"/runs.csv?{query}").text)))


def ledger(client: httpx.Client, *by: str) -> dict[tuple[str | None, ...], int]:
    """Return the milliseconds of the week as the API tells them."""
    answer = client.get("/v1/ledger", params={"by": list(by), "since": WEEK, "limit": 1000}).json()
    return {
        tuple(item["run_id" if name == "run" else name] for name in by): item["milliseconds"]
        for item in answer["items"]
    }


def test_all_runs_of_the_week_are_there_the_dearest_first(client: httpx.Client) -> None:
    """Page, sheet and API have the same runs, and the same amounts."""
    rows = sheet(client)
    assert [row["run_id"] for row in rows][:100] == found(client)
    told = {row["run_id"]: int(row["milliseconds"]) for row in rows}
    assert told == {run: ms for (run,), ms in ledger(client, "run").items() if run}
    costs = [int(row["cost_micros"] or 0) for row in rows]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize("sort", SORTS)
def test_every_order_has_the_same_runs(client: httpx.Client, sort: str) -> None:
    """And a heading that leads to it."""
    rows = sheet(client, f"sort={sort}")
    assert sorted(row["run_id"] for row in rows) == sorted(row["run_id"] for row in sheet(client))
    keys: dict[str, list[int] | list[str]] = {
        "gpus": [-int(row["gpus"] or 0) for row in rows],
        "hours": [-int(row["milliseconds"]) for row in rows],
        "name": [row["name"].lower() for row in rows],
        "started": [-int(row["started_us"] or 0) for row in rows],
    }
    key = keys.get(sort, [])
    assert key == sorted(key)
    assert sort == "cost" or f"sort={sort}" in client.get("/runs").text


@pytest.mark.parametrize(
    ("query", "column", "value"),
    [("team=team-nlp", "team", "team-nlp"), ("sku=A100-80GB", "sku", "A100-80GB"), ("q=llama", "name", "llama-sft")],
)
def test_a_filter_leaves_what_it_names(client: httpx.Client, query: str, column: str, value: str) -> None:
    """And all of it."""
    wanted = [row["run_id"] for row in sheet(client, "week=all") if value in row[column]]
    assert wanted
    assert sorted(row["run_id"] for row in sheet(client, f"{query}&week=all")) == sorted(wanted)


def narrowed(client: httpx.Client, what: str) -> tuple[list[str], list[str]]:
    """Return the names in a list to choose from, and the runs that are left of all where the first is chosen."""
    listed = re.search(rf'<select name="{what}">(.*?)</select>', client.get("/runs?week=all").text, re.DOTALL)
    names = re.findall(r'<option value="([^"]+)">', listed[1]) if listed else []
    return names, found(client, f"week=all&{what}={names[0]}") if names else []


def test_queues_and_users_are_chosen_as_teams_are() -> None:
    """Who looks after a queue, or one person's jobs, needs no search of all text; users are for those who may judge."""
    with guarded() as site, site.browser() as owner, site.browser() as reader:
        log_in(owner, site.keys["owner"])
        log_in(reader, site.keys["read"])
        whole = set(found(owner, "week=all"))
        for what in ("queue", "user"):
            _, left = narrowed(owner, what)
            assert set() < set(left) <= whole, what
        assert narrowed(reader, "queue")[0] == narrowed(owner, "queue")[0]
        assert narrowed(reader, "user") == ([], [])


def test_a_search_finds_the_end_of_an_id_and_a_node(client: httpx.Client) -> None:
    """What stands in a scheduler's mail, and what an alert names; capitals do not matter."""
    assert "slurm/alpha/81234" in found(client, "q=81234")
    node = next(node for node, run in ledger(client, "node", "run") if run == "slurm/alpha/81234")
    assert "slurm/alpha/81234" in found(client, f"q={str(node).upper()}")


@pytest.mark.parametrize("text", ["no such run", "%", "_", "'", '"><script>', "\0", "a" * 200])
def test_what_nothing_answers_to_is_said(client: httpx.Client, text: str) -> None:
    """A search is text: no sign of it is a pattern, and none is markup."""
    answer = client.get("/runs", params={"q": text})
    assert answer.status_code == 200
    assert ROW.findall(answer.text) == []
    assert "No run answers to" in answer.text
    assert "<script>" not in answer.text.partition("<main")[2].partition("</main>")[0]


@pytest.mark.parametrize(
    ("query", "said"),
    [("sort=size", "there is no order"), ("state=lost", "there is no state"), ("q=" + "a" * 201, "200 characters"),
     ("week=someday", "is not a valid period")],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(client: httpx.Client, query: str, said: str) -> None:
    """With a sentence."""
    answer = client.get(f"/runs?{query}")
    assert answer.status_code == 400
    assert said in unescape(answer.text)


def test_an_id_of_a_finding_leads_to_its_page(client: httpx.Client) -> None:
    """One field for all that people have in their hands."""
    assert client.get("/runs?q=f-7kq2", follow_redirects=False).headers["location"] == "/findings/f-7kq2"
    assert client.get("/runs?q=R-9TD4", follow_redirects=False).headers["location"] == "/recommendations#r-9td4"


def test_the_period_and_the_filters_stay_in_the_links(client: httpx.Client) -> None:
    """What was chosen goes along with an order."""
    page = client.get(f"/runs?week={WEEK}&team=team-nlp").text
    assert f"/runs?week={WEEK}&amp;team=team-nlp&amp;sort=started" in page
    assert f'href="/money?week={WEEK}"' in page
    assert found(client, "since=2026-11-09&until=2026-11-15") == found(client, f"week={WEEK}")


def test_a_team_finds_its_own_runs() -> None:
    """The list, a run, its timeline and its parts open; those of others are not there."""
    with guarded() as site, site.browser() as team, site.browser() as everybody:
        log_in(team, site.keys["nlp"])
        log_in(everybody, site.keys["read"])
        own, whole = found(team, "week=all"), sheet(everybody, "week=all")
        assert sorted(own) == sorted(row["run_id"] for row in whole if row["team"] == "team-nlp")
        for path in ("", "/parts/findings", "/parts/rest", "/timeline"):
            assert team.get(f"/runs/{own[0]}{path}").status_code == 200, path
        other = next(row["run_id"] for row in whole if row["team"] == "team-vision")
        for path in ("", "/parts/findings", "/timeline"):
            assert team.get(f"/runs/{other}{path}").status_code == 404, path
        assert found(team, f"q={other}") == []
        assert "team-vision" not in team.get("/").text
        assert team.get("/parts/grid").status_code == 404


def test_two_runs_stand_side_by_side(client: httpx.Client) -> None:
    """As the command prints them; an id's end is enough, and what is no other run is said."""
    first, second = found(client)[:2]
    page = client.get("/compare", params={"before": first, "after": second.rsplit("/", 1)[-1]})
    assert page.status_code == 200
    told = client.get("/v1/read", params={"what": "compare", "subject": first, "other": second, "format": "text"}).text
    row = re.compile(r'<tr[^>]*><th scope="row">([^<]+)</th>' + r'<td class="number">([^<]*)</td>' * 3)
    shown = [[unescape(cell) for cell in cells if cell] for cells in row.findall(page.text)]
    assert [cells[0] for cells in shown].count("total") == 1
    assert "curve-1" not in page.text, "nothing was measured of either: an empty sheet says that it was nothing"
    for cells in shown:
        assert re.search(r"^ *" + r" +".join(map(re.escape, cells)) + "$", told, re.MULTILINE), cells
    assert client.get("/compare", params={"before": first, "after": first}).status_code == 404
    assert client.get("/compare", params={"before": first, "after": "no-such"}).status_code == 404
    assert f'name="after" value="{first}"' in client.get(f"/runs/{first}").text


def test_a_team_is_told_what_it_held_and_not_what_is_owned() -> None:
    """Of its hosts it sees its own time alone: all of that is held, which says nothing of the hosts."""
    with guarded() as site, site.browser() as team, site.browser() as everybody:
        log_in(team, site.keys["nlp"])
        log_in(everybody, site.keys["read"])
        racks = [client.get("/placement").text for client in (team, everybody)]
        heads = [client.get("/parts/headline").text for client in (team, everybody)]
    assert ["held</th>" in page for page in racks] == [False, True]
    assert ["% held" in page for page in racks] == [False, True]
    assert [re.findall("<dt>(owned|held)</dt>", head) for head in heads] == [["held"], ["owned"]]
