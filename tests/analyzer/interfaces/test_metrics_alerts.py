"""The rules for Prometheus: they load, fire when they must, ask for what is served, and say what to do."""

import importlib
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent.exposition import exposition
from collector.http.server_metrics import MetricsPoller
from collector.pipeline.metrics import Metrics
from collector.store.seal_mark import Mark
from tests.agent.test_exporter_situations import promtool
from tests.analyzer.interfaces.api_sites import LATER, settings
from tests.analyzer.interfaces.test_metrics_fleet_page import page
from tests.analyzer.ledger.fleet import HOUR, MONDAY
from tests.analyzer.small_site import small_site
from tests.exposed import exposed

ROOT = Path(__file__).parents[3]
DOCS, RULES = ROOT / "docs", ROOT / "dashboards" / "prometheus"
FILES = ("fleet.yml", "hosts.yml")
OURS = re.compile(r"\bgpuledger_(?:fleet|collector)_\w+")
AGENTS = re.compile(r"\bgpuledger_(?:gpu|agent)_\w+")
LINKS = re.compile(
    r"label \"url\" \}\}\{\{ end \}\}(/\S+|\{\{ with printf .*/findings/|\{\{ with printf .*/\?at=now&node=)"
)
yaml: Any = importlib.import_module("yaml")  # it has no types


@cache
def rules(file: str) -> list[dict[str, Any]]:
    """Return the rules of a file."""
    document = yaml.safe_load((RULES / file).read_text("utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("file", FILES)
def test_the_rules_load_and_fire(file: str) -> None:
    """Each alert has a case in which it fires, and one in which it must not."""
    test = RULES / file.replace(".yml", "-test.yml")
    closer = RULES.glob(file.replace(".yml", "-*-test.yml"))  # at one of them, minute by minute
    for verb, files in (("check", [RULES / "recording.yml", RULES / file]), ("test", [test, *closer])):
        done = subprocess.run([promtool(), verb, "rules", *files], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    cases = [set(re.findall(r"alertname: (\w+)", part)) for part in test.read_text("utf-8").split("  - name: ")[1:]]
    names = {rule["alert"] for rule in rules(file)}
    assert cases == [names, names]


@pytest.mark.parametrize("file", FILES)
def test_every_alert_says_what_to_do_and_where_to_look(file: str) -> None:
    """Whoever is called at night knows neither the fleet nor us."""
    for rule in rules(file):
        notes = rule["annotations"]
        assert set(notes) == {"summary", "description", "link"}, rule["alert"]
        assert len(notes["description"]) > 50, rule["alert"]
        assert LINKS.search(notes["link"]), notes["link"]
        assert rule["labels"]["severity"] in ("page", "ticket", "info")


def test_every_alert_is_explained() -> None:
    """docs/alerts.md has a section of its own for each, with its threshold's source."""
    text = (DOCS / "alerts.md").read_text("utf-8")
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    told = {rule["alert"] for file in FILES for rule in rules(file)}
    assert set(sections) == told
    assert [name for name, section in sections.items() if not all(word in section for word in ("Do:", "From:"))] == []


def test_recordings_are_used() -> None:
    """A recording that nobody asks for costs as much as one that all do."""
    text = "".join((RULES / file).read_text("utf-8") for file in FILES)
    assert [rule["record"] for rule in rules("recording.yml") if rule["record"] not in text] == []


def test_every_metric_that_is_named_is_served(tmp_path: Path) -> None:
    """An alert on a name that nobody serves never fires, and nobody notices."""
    fleet, chosen = small_site(), settings(tmp_path)
    fleet.sample("z0", "z0g0", MONDAY + 2 * HOUR, MONDAY + 4 * HOUR)
    fleet.analyze(now=LATER, settings=chosen)
    metrics = Metrics()
    MetricsPoller(fleet.store, Mark.of(fleet.store), metrics)
    text = (exposed(page(fleet.store, chosen)) + exposition(metrics.registry)[0]).decode()
    served = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    document = (DOCS / "prometheus.md").read_text("utf-8")
    written = "".join((RULES / file).read_text("utf-8") for file in (*FILES, "recording.yml"))
    named = set(OURS.findall(written + document))
    assert len(named) > 30
    assert named - served == set()
    assert {name for name in served if name.startswith("gpuledger_fleet_")} - set(OURS.findall(document)) == set()
    assert set(AGENTS.findall(written)) - set(AGENTS.findall((DOCS / "metrics.md").read_text("utf-8"))) == {
        "gpuledger_gpu_throttle"  # of gpu:gpuledger_gpu_throttle:ratio_rate15m, which is recorded
    }


def test_prometheus_takes_the_scrape_settings(tmp_path: Path) -> None:
    """They are copied as they stand."""
    (text,) = re.findall(
        r"^```yaml\n(# The server.*?)^```$", (DOCS / "prometheus.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    for name in re.findall(r"/etc/[\w./-]+", text):
        there = tmp_path / Path(name).name
        there.write_bytes((RULES / there.name).read_bytes() if name.endswith(".yml") else b"key")
        text = text.replace(name, str(there))
    file = tmp_path / "prometheus.yml"
    file.write_text(text, "utf-8")
    done = subprocess.run([promtool(), "check", "config", "--lint=none", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = sum(int(count) for count in re.findall(r"(\d+) rules found", done.stdout))
    assert found == sum(len(rules(name)) for name in (*FILES, "recording.yml"))
