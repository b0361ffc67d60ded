"""The pages: what they say, what they never load, and who gets which answer."""

import json
import re
import time
from dataclasses import fields
from html.parser import HTMLParser

import httpx
import pytest
from fastapi import FastAPI

from analyzer.errors import ConfigError
from analyzer.interfaces.cli.report import budgets, findings
from analyzer.reports.request import Request as Reading
from analyzer.text.templating import PLOTLY
from dashboards.analysis import Pass
from dashboards.pages.frame import Frame
from dashboards.server.report_route import ReadAsked
from tests.analyzer.reports.test_reading import BERLIN
from tests.dashboards.serving import whole

PAGES = ["/", "/?week=2026-W46", "/runs/slurm/alpha/81234", "/findings/f-7kq2?week=2026-W46"]


class Links(HTMLParser):
    """Collects what a page links to and loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.inline_scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep addresses, and count scripts that would run without one."""
        known = dict(attrs)
        self.found += [(tag, value) for name in ("href", "src", "action") if (value := known.get(name))]
        if tag == "script" and "src" not in known and known.get("type") != "application/json":
            self.inline_scripts += 1
        assert not [name for name, _ in attrs if name.startswith("on")], "an inline handler would break the policy"


def links(text: str) -> Links:
    """Return what a page refers to."""
    parser = Links()
    parser.feed(text)
    return parser


@pytest.mark.parametrize("path", PAGES)
def test_every_page_loads_from_us_alone(client: httpx.Client, path: str) -> None:
    """A profiler's page in a closed network must work, and must tell nobody that it was opened."""
    referred = links(whole(client, path))
    assert [value for _, value in referred.found if not value.startswith(("/", "#"))] == []
    assert referred.inline_scripts == 0
    policy = client.get(path).headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("path", PAGES)
def test_every_link_leads_somewhere(client: httpx.Client, path: str) -> None:
    """A dead link on the front page is the first thing a new user finds."""
    for tag, value in set(links(whole(client, path)).found):
        if tag == "a" and value != "/runs/slurm/alpha/81500":
            assert client.get(value).status_code == 200, value


def test_the_front_page_says_what_the_report_says(client: httpx.Client) -> None:
    """Two figures for one thing cost more trust than either is worth."""
    text = re.sub(r"\s+", " ", whole(client, "/").replace("\u00a0", " "))
    assert "$9,226 was avoidable (13.6%), $612 less than the week before." in text
    for figure in ("36,302", "16,563", "67,738", "14,023", "$1,022", "$9,225.66"):
        assert figure in text


def test_names_are_escaped(client: httpx.Client) -> None:
    """A run's name is its user's text: on our page it must stay text."""
    page = whole(client, "/")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    run = whole(client, "/runs/slurm/alpha/81500")
    assert "<script>alert" not in run
    node = client.get("/parts/node?node=%3Cscript%3Ealert").text
    assert "<script>alert" not in node


def test_chart_data_cannot_leave_its_block(client: httpx.Client) -> None:
    """JSON inside a script element ends at the first closing tag that it quotes."""
    block = re.search(
        r'<script type="application/json" id="fleet-time-data">(.*?)</script>', whole(client, "/"), re.DOTALL
    )
    assert block is not None
    data = json.loads(block[1])
    assert [trace["name"] for trace in data["data"]] == ["useful", "avoidable", "overhead", "spare", "unknown"]
    assert "<" not in block[1]


def test_every_chart_has_its_numbers_as_a_table(client: httpx.Client) -> None:
    """Who cannot see the bars, or wants to copy them, reads the table; together the GPUs are those owned."""
    page = whole(client, "/")
    assert (
        page.count("data-chart=") == page.count("<summary>The numbers") == page.count('data-csv="fleet-time.csv"') == 1
    )
    row = re.search(r'<tr><td class="number">Mon 9 Nov 00:00</td>(.*?)</tr>', page)
    assert row is not None
    values = [float(value) for value in re.findall(r">([\d.]+)<", row[1])]
    assert sum(values) == pytest.approx(192, abs=0.3)


def test_the_grid_has_a_letter_and_words_for_each_gpu(client: httpx.Client) -> None:
    """Colour is never the only carrier: 192 cells, each with its letter and its title."""
    page = client.get("/?at=week").text
    cells = re.findall(r'class="cell (\w+) shade-\d"[^>]*title="([^"]+)">([UAOS?])<', page)
    assert len(cells) == 192
    letters = {"useful": "U", "avoidable": "A", "overhead": "O", "spare": "S", "unknown": "?"}
    assert all(letter == letters[klass] for klass, _, letter in cells)
    assert any("n17 " in title and "idle allocation 100" in title for _, title, _ in cells)


def test_the_address_carries_the_week(client: httpx.Client) -> None:
    """A link in a chat must show the week that was talked about."""
    assert "2026-W45" in client.get("/?week=2026-W45").text
    assert "hour" in client.get("/?week=2026-W40").text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/?week=nonsense", 400),
        ("/runs/slurm/alpha/none", 404),
        ("/findings/f-none", 404),
        ("/parts/none", 404),
        ("/parts/node?node=none", 404),
        ("/parts/node", 404),
        ("/?at=never", 422),
        ("/runs/slurm/alpha/81234/parts/none", 404),
        ("/runs/slurm/alpha/none/timeline", 404),
        ("/runs/slurm/alpha/81234/timeline?start=5&end=6", 404),
        ("/static/secret.txt", 404),
        ("/static/..%2Fapp.py", 404),
        ("/v1/read?what=nothing", 422),
        ("/v1/read?what=explain&subject=f-none", 404),
    ],
)
def test_what_is_not_there_is_a_sentence(client: httpx.Client, path: str, status: int) -> None:
    """An error page says what to do; a stack trace tells an attacker more than the user."""
    answer = client.get(path)
    assert answer.status_code == status
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(("path", "status"), [("/nope", 404), ("/findings/f-7kq2/nope", 404), ("/?at=never", 422)])
def test_a_browser_sees_a_page_where_an_address_is_wrong(client: httpx.Client, path: str, status: int) -> None:
    """A mistyped address showed the JSON of programs, with no way back to any page."""
    answer = client.get(path, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert answer.status_code == status
    assert "<h1>Nothing to show</h1>" in answer.text
    assert 'href="/runs"' in answer.text
    assert client.get(path).headers["content-type"] == "application/problem+json"


def test_readings_are_the_command_line_s(client: httpx.Client) -> None:
    """--server must print what --store would."""
    text = client.get("/v1/read", params={"what": "findings", "ascii": "True"}).text
    assert text.startswith("16 open findings, week 2026-W46")
    assert text.isascii()
    assert json.loads(client.get("/v1/read?what=week&format=json").text)["version"] == 1


def test_whatever_is_asked_of_a_store_may_be_asked_of_a_server() -> None:
    """`report run --traffic --server` was refused, for want of one line."""
    assert {each.name for each in fields(Reading)} == set(ReadAsked.model_fields)


def test_check_fails_through_a_server_too(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A job that asks the server ended well, whatever was found."""
    assert findings(["--server", address, "--check", "--top", "1"]) == 1
    assert "check failed: " in capsys.readouterr().err


def test_a_check_of_no_budget_fails_through_a_server_too(address: str) -> None:
    """The server's answer says of each bearer whether it has one."""
    with pytest.raises(ConfigError, match="no budget holds in 2026-11"):
        budgets(["--server", address, "--check"])


def test_plotly_is_ours_and_shares_nothing(client: httpx.Client) -> None:
    """plotly's own bar has a button that uploads a chart to its maker: charts name the buttons they have."""
    script = client.get("/static/page.js").text
    assert 'modeBarButtons: [["toImage", "resetScale2d"]]' in script
    assert "displaylogo: false" in script
    packed = client.get("/static/plotly.min.js", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.text == PLOTLY.read_text("utf-8")


def test_a_page_is_rendered_once_until_the_ledger_changes(client: httpx.Client) -> None:
    """Twenty people open the link on Monday morning."""
    assert client.get("/?week=2026-W46").text == client.get("/?week=2026-W46").text
    assert "no-cache" in client.get("/").headers["cache-control"]


def test_the_page_of_a_finding_shows_what_it_stands_on(client: httpx.Client) -> None:
    """One sentence with its price, the plot, and the way to say that it is wrong."""
    text = client.get("/findings/f-7kq2?week=2026-W46").text
    assert "462.5 GPU-hours, $1,202 since" in text or "$1,203 since" in text
    assert "input starvation" in text
    assert "gpuledger findings judge f-7kq2" in text
    assert "llama-sft slurm/alpha/81234" in text
    assert "gpuledger findings explain f-7kq2" in text


def test_what_is_worth_a_look_stands_below_the_findings(client: httpx.Client) -> None:
    """Who looks after hosts and queues reads the same list as the text's and the API's, with what to do."""
    page = whole(client, "/?week=2026-W46")
    items = client.get("/v1/notices", params={"since": "2026-W46", "limit": 1000}).json()
    assert items["items"]
    assert all(f'<tr id="{item["id"]}">' in page for item in items["items"])
    rules = {one["rule"] for one in items["not_judged"]}
    text = client.get("/v1/read", params={"what": "findings", "since": "2026-W46"}).text
    assert f"insufficient data for {len(rules)} rules" in text
    assert f"Insufficient data for {len(rules)} rules" in page


def test_the_page_of_a_run_says_what_the_text_says(client: httpx.Client) -> None:
    """Whose it is, of which stage, and how it ended were left out on the page alone."""
    page = whole(client, "/runs/slurm/alpha/81234")
    text = client.get("/v1/read", params={"what": "run", "subject": "81234"}).text
    assert "<dd>team-nlp · fine-tuning · ended, exit 0</dd>" in page
    assert "EFFICIENCY" in text
    assert "<h2>Efficiency</h2>" in page
    assert "<h2>Insufficient data</h2>" in page
    assert "Rule starved 3." in page


def test_the_list_says_what_is_open_and_who_can_act(client: httpx.Client) -> None:
    """A closed finding and an open one ask for different things of their reader."""
    page = whole(client, "/?week=2026-W46")
    assert "Findings (16, 16 still open; estimated waste $9,225.66)" in page
    assert "closed 18 Nov 00:00" in page
    assert "team-nlp</bdi></td><td>open, new</td>" in page


def test_figures_of_long_ago_say_so(client: httpx.Client) -> None:
    """The example's week is over for long: every page says when its figures end, and where to look."""
    for path in ("/", "/runs", "/money", "/runs/slurm/alpha/81234"):
        page = client.get(path).text
        assert re.search(r'<p class="ended" role="note">Figures end [^<]+, \d+ d ago: <a href="/health">', page), path


def test_a_simulated_site_is_marked_on_every_page(app: FastAPI) -> None:
    """Nobody shall take the demo's dollars for somebody's."""
    view = {"figures_end": time.time_ns() // 1000, "message": "x", "json_link": "/"}
    for is_simulated in (True, False):
        frame = Frame(BERLIN, Pass, app.state.access, is_simulated=is_simulated)
        page = frame.finished(frame.draft("message.html", **view))  # type: ignore[arg-type]
        assert ("This site is simulated" in page) == is_simulated
