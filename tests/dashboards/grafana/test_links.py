"""Each link of each alert and each panel, followed to the server of a real demo fleet."""

import html
import importlib
import json
import re
from typing import Any

import httpx
import pytest

from tests.dashboards.grafana.boards import FOLDER, NAMES
from tests.dashboards.grafana.conftest import RULES, Asked
from tests.waiting import PATIENCE_SECONDS

yaml: Any = importlib.import_module("yaml")  # it has no types
PAGES = re.compile(r"""^\{\{ with printf "gpuledger_fleet_info.*?\{\{ end \}\}""")
EITHER = re.compile(r"\{\{ with .*? \}\}(.+?)\{\{ else \}\}(.+?)\{\{ end \}\}")
NAMED = re.compile(r"\{\{ (?:\. \| first \| label \"(\w+)\"|\$labels\.(\w+)) \}\}")


@pytest.fixture(scope="module")
def there(asked: Asked) -> dict[str, str]:
    """Return a run, a finding and a host that Prometheus has heard of, as templates name them."""
    (run, *_), (finding, *_), (node, *_) = (
        asked.query(f'{metric}{{cluster="alpha"}}')
        for metric in ("gpuledger_fleet_run_gpus", "gpuledger_fleet_finding_gpu_seconds", "gpuledger_agent_build_info")
    )
    return {
        "run_id": run["metric"]["run_id"],
        "finding": finding["metric"]["finding"],
        "node": node["metric"]["node"],
    }


def opened(pages: str, address: str) -> None:
    """Open an address; fail where there is no page, or no such place on it."""
    answer = httpx.get(f"{pages}{address}", timeout=PATIENCE_SECONDS)
    assert answer.status_code == 200, address
    _, _, place = address.partition("#")
    assert not place or f'id="{place}"' in html.unescape(answer.text), address


def addresses(link: str, there: dict[str, str]) -> list[str]:
    """Return what a link's template can become, behind the address of the site."""
    bare, count = PAGES.subn("", link)
    assert count == 1, link
    either = EITHER.fullmatch(bare)
    return [NAMED.sub(lambda of: there[of[1] or of[2]], one) for one in (either.groups() if either else [bare])]


@pytest.mark.parametrize("file", ["fleet.yml", "hosts.yml"])
def test_every_link_of_an_alert_opens_its_place(asked: Asked, there: dict[str, str], file: str) -> None:
    """Whoever is called at night should not look for the page, nor for the place on it."""
    document = yaml.safe_load((RULES / file).read_text("utf-8"))
    links = {rule["annotations"]["link"] for group in document["groups"] for rule in group["rules"]}
    found = sorted({address for link in links for address in addresses(link, there)})
    assert len(found) >= 2
    for address in found:
        assert address.startswith("/"), address
        assert "{{" not in address, address
        opened(asked.pages, address)


def test_a_host_that_the_ledger_has_not_yet_is_said(asked: Asked) -> None:
    """Its agent may tell Prometheus of a lost GPU before its first hour is booked."""
    answer = httpx.get(f"{asked.pages}/?at=now&node=n99", timeout=PATIENCE_SECONDS)
    assert (answer.status_code, "no time of a node" in answer.text) == (200, True)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "dcgm"])
def test_every_link_of_a_dashboard_opens(asked: Asked, there: dict[str, str], name: str) -> None:
    """The server says where its pages are; runs, findings and hosts of tables open there."""
    text = (FOLDER / f"{name}.json").read_text("utf-8")
    assert json.loads(text)["uid"]
    found = sorted(set(re.findall(r'"\$\{pages\}([^"]*)"', text)))
    assert found
    for address in found:
        kind = "run_id" if "/runs/" in address else "finding"
        opened(asked.pages, address.replace("${__value.raw}", there[kind]).replace("${run}", there["run_id"]))


def test_the_server_says_where_its_pages_are(asked: Asked) -> None:
    """Links of alerts and panels begin with it."""
    (info,) = asked.query('gpuledger_fleet_info{cluster="alpha"}')
    assert info["metric"]["url"] == asked.pages
