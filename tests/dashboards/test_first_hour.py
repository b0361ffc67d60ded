"""The first hour of a site: what an empty server says, and how soon a real agent's figures are on its page."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser

from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.store.database import Store
from dashboards.analysis import ANALYZE_SECONDS, pause_seconds
from dashboards.server.app import ServerConfig, create_server
from tests.agent.gpu.fake.build import build, compiler, living
from tests.browser import Visit
from tests.dashboards.serving import served
from tests.fleet.ports import free_port
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[2]
GPUS = 8


@pytest.fixture(scope="module")
def empty() -> Iterator[httpx.Client]:
    """Yield a client of a server to which nobody has sent anything."""
    config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), Settings(), analyze_seconds=None)
    with Store.open(None) as store, served(create_server(config, store)) as client:
        yield client


@contextmanager
def running(*words: str, log: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run one of our commands until the test is done with it."""
    line = [sys.executable, "-m", "gpuledger", *words]
    with log.open("wb") as out, subprocess.Popen(line, stderr=out, cwd=ROOT, env=os.environ | variables) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize("path", ["/", "/runs", "/findings", "/recommendations", "/money", "/placement"])
def test_an_empty_server_says_what_to_do_first(empty: httpx.Client, path: str) -> None:
    """Four things, each with what to paste; a new site is no failure."""
    answer = empty.get(path)
    assert answer.status_code == 200
    assert "the ledger is empty" not in answer.text
    assert "0 of 4 done" in answer.text
    assert re.findall(r"</span> (\w[\w ]+)</h2>", answer.text) == ["Agent", "Prices", "Teams", "First hour"]
    assert "gpuledger agent --collector http://127.0.0.1:0" in answer.text, "where this server listens, and as it does"
    assert re.search(r"the first hour is whole \w{3} \d+ \w{3} \d\d:05\.", answer.text)
    assert answer.headers["refresh"] == "10", "it becomes the page by itself"


def test_what_a_site_has_set_up_is_done(tmp_path: Path) -> None:
    """Whoever brought a price file along is not asked for one."""
    settings = Settings(prices=tmp_path / "prices.toml", site_url="https://gpus.example")
    config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), settings, analyze_seconds=None)
    with Store.open(None) as store, served(create_server(config, store)) as client:
        page = client.get("/").text
    assert "1 of 4 done" in page
    assert "usd_per_gpu_hour" not in page
    assert "gpuledger agent --collector https://gpus.example" in page


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
def test_an_empty_server_s_page_fits(browser: Browser, empty: httpx.Client, width: int, scheme: str) -> None:
    """A phone needs no sideways scroll, and what is to be pasted has its button."""
    visit = Visit(browser, str(empty.base_url), width, scheme)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    assert visit.page.get_by_role("button", name="Copy").count() == 4
    visit.close()


@pytest.mark.parametrize(
    ("most", "taken", "pause"),
    [(300, None, 30), (300, 0.4, 30), (300, 3, 60), (300, 60, 300), (2, 60, 2), (2, 0.1, 2), (900, 40, 800)],
)
def test_a_small_site_is_analysed_every_half_minute(most: float, taken: float | None, pause: float) -> None:
    """The running hour is then on the page; a large one has its processors for nineteen twentieths of the time."""
    assert pause_seconds(most, taken) == pause
    assert pause_seconds(ANALYZE_SECONDS, taken) <= ANALYZE_SECONDS


@pytest.mark.skipif(compiler() is None, reason="no C compiler here to build the fake driver library")
def test_an_agent_s_first_batch_becomes_figures_by_itself(tmp_path: Path) -> None:
    """A real server and a real agent: nobody runs an analysis, and the hour that is under way says that it is."""
    prices = tmp_path / "prices.toml"
    prices.write_text(
        '[[price]]\nsku = "H100-80GB"\npurchase_option = "any"\nusd_per_gpu_hour = 2.60\n'
        'from = 2026-01-01\nsource = "contract"\nas_of = 2026-11-01\n'
    )
    server = httpx.Client(base_url=f"http://127.0.0.1:{free_port()}", timeout=PATIENCE_SECONDS)
    where = [f"--store={tmp_path / 's.duckdb'}", f"--listen=127.0.0.1:{server.base_url.port}"]
    fake = {"LD_LIBRARY_PATH": str(build(tmp_path)), "GPULEDGER_FAKE_NVML": str(living(tmp_path / "s", GPUS).path)}
    own = {f"GPULEDGER_AGENT_{key}": str(tmp_path / key.lower()) for key in ("SPOOL", "STATE", "KEY_FILE", "PROGRESS")}
    quick = ["--node", "n14", "--beat-seconds", "1", "--batch-seconds", "1", "--listen", "off"]

    def page(path: str = "/") -> str:
        try:
            return server.get(path).text
        except httpx.TransportError:
            return ""

    def is_booked() -> bool:  # to make a page each time would take the server longer than all it does meanwhile
        hours = server.get("/v1/hours")
        return hours.status_code == 200 and bool(hours.json()["items"])

    with (
        server,
        running(
            "serve", *where, "--analyze-every=1", log=tmp_path / "log", GPULEDGER_ANALYZER_PRICES=str(prices)
        ) as serving,
    ):
        until(lambda: "1 of 4 done" in page(), "the server says what is to be done", process=serving)
        with running("agent", "--collector", str(server.base_url), *quick, log=tmp_path / "agent", **own, **fake):
            until(is_booked, "an hour is booked", process=serving)
            until(lambda: 'id="grid"' in page(), "figures are on the page", process=serving)
        found = until(
            lambda: re.search(r"(\d+) of (\d+) GPUs held, .*, \$([\d.]+) per hour \(preliminary, to ", page()),
            "the running hour is there",
            process=serving,
        )
        assert (found[1], found[2]) == ("0", str(GPUS))
        assert float(found[3]) == pytest.approx(GPUS * 2.60, rel=0.01)  # of seconds, in whole millionths
        assert "2 of 4 done" in page(), "the first hour is not whole yet"
        hours = server.get("/v1/hours").json()["items"]
        assert {hour["status"] for hour in hours} == {"provisional"}
        assert server.get("/v1/findings").json()["items"] == []
