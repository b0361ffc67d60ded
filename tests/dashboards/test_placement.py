"""The page of placement: racks as they are, who sends how much to whom, and what to move."""

import re
from collections.abc import Iterator

import httpx
import pytest

from analyzer.recommendations.recommendation import Artefact, Move, Placement, Range, Recommendation
from dashboards.pages.recommendations import _change, sides
from tests.analyzer.interfaces.api_sites import TOKEN, Site, site
from tests.dashboards.test_money import sheet


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield the small site: one of its runs crosses racks."""
    with site(tmp_path_factory.mktemp("placement")) as one:
        yield one


def text(answer: httpx.Response) -> str:
    """Return a page that must be there."""
    assert answer.status_code == 200, answer.text
    return answer.text


def test_every_node_stands_in_its_rack(small: Site) -> None:
    """As the inventory says it: who looks for a host finds it where it hangs."""
    page = text(small.get("/placement"))
    assert page.index(">rack-1<") < page.index(">rack-2<") < page.index(">rack-3<")
    for node in ("r0", "r1", "z0"):
        assert f">{node}</bdi></th>" in page
    assert re.findall(r"<script[^>]*>", page) == re.findall(r'<script src="/static/sort.js[^>]*>', page)


def test_one_rack_can_be_looked_at(small: Site) -> None:
    """A fleet of a thousand hosts is shown by rack; the address says which is open."""
    page = text(small.get("/placement?rack=rack-3"))
    assert ">z0</bdi></th>" in page
    assert ">r0</bdi></th>" not in page


def test_the_matrix_is_the_sum_of_the_runs_matrices(small: Site) -> None:
    """The page counts no byte that the API does not tell, and leaves none out."""
    runs = [run["run_id"] for run in small.items("/v1/runs?limit=1000")]
    told = 0
    for run_id in runs:
        answer = small.get(f"/v1/runs/{run_id}/traffic")
        told += (
            sum(cell["bytes"] for cell in answer.json()["traffic"]["matrix"]["cells"])
            if answer.status_code == 200
            else 0
        )
    rows = sheet(small.client, "/placement/traffic.csv", TOKEN)
    assert sum(int(row["bytes"]) for row in rows) == told > 0
    page = text(small.get("/placement?view=traffic"))
    assert "of what" in page
    assert "left its rack" in page
    assert 'title="rack-1 to rack-2: ' in page


def test_a_team_s_key_is_told_of_its_own_runs_alone(small: Site) -> None:
    """Whose run it is, is known before samples are read: they name no team."""
    own = text(small.get("/placement?view=traffic", "holders"))
    assert "crossing" not in own
    every = text(small.get("/placement?view=traffic"))
    assert "crossing" in every
    changes = text(small.get("/recommendations", "holders"))
    listed = small.items("/v1/recommendations", "holders")
    assert all(item["id"] in changes for item in listed)
    others = {item["id"] for item in small.items("/v1/recommendations")} - {item["id"] for item in listed}
    assert others
    assert not [one for one in others if one in changes]


def test_each_recommendation_has_its_lines_and_what_moves(small: Site) -> None:
    """What the API recommends, in its order, before and after, with all that is to be pasted."""
    page = text(small.get("/recommendations"))
    listed = small.items("/v1/recommendations")
    assert listed
    places = [page.index(f'id="{item["id"]}"') for item in listed]
    assert places == sorted(places)
    assert page.count("<h3>before</h3>") == page.count("<h3>after</h3>") == len(listed)
    pasted = [item for item in listed if item["artefact"]]
    assert page.count('class="copy"') >= len(pasted)
    assert len(sheet(small.client, "/recommendations/recommendations.csv", TOKEN)) >= len(listed)


def test_ranks_are_drawn_in_their_order_with_each_change_of_rack() -> None:
    """A ring that goes to and fro is seen before it is read."""
    here = Placement(("n1", "n9", "n2"), ("rack-1", "rack-2", "rack-1"), 24)
    there = Placement(("n1", "n2", "n9"), ("rack-1", "rack-1", "rack-2"), 24)
    hours = Range(1, 2, 3)
    advice = Recommendation(
        "reorder_ranks", "order", "1 2 1", "1 1 2", "the ring <b>", (Artefact("slurm", "srun <x>"),), "nobody",
        move=Move(here, there), cost_to_move="none", actor="run", subject="run", team="team", id="r-aaaa",
        saves_milliseconds=hours, saves_micros=None, cost_to_move_micros=None,
    )  # fmt: skip
    (_, before, _), (_, after, _) = sides(advice)
    assert [(rack, nodes) for rack, _, nodes in before] == [
        ("rack-1", ("n1",)),
        ("rack-2", ("n9",)),
        ("rack-1", ("n2",)),
    ]
    assert [nodes for *_, nodes in after] == [("n1", "n2"), ("n9",)]
    assert before[0][1] == after[0][1], "a rack has one shade on both sides"
    assert _change(advice, "1 h", "USD", "UTC")["why"] == "The ring <b>."


@pytest.mark.parametrize(("path", "status"), [("/placement?view=nonsense", 400), ("/placement/nonsense.csv", 404)])
def test_what_is_not_there_is_a_sentence(small: Site, path: str, status: int) -> None:
    """An address that somebody typed answers in words."""
    assert small.get(path).status_code == status
