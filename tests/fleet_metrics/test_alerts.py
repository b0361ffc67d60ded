"""What docs/ give to Prometheus for the server: it loads, it fires when it must, and every name is one of ours."""

import re
import subprocess
from pathlib import Path

from collector.metrics import Metrics
from collector.pulse import Pulse
from collector.sealing.mark import Mark
from tests.agent.test_exporter_situations import promtool
from tests.analyzer.small_site import small_site
from tests.api.sites import LATER, settings
from tests.fleet_metrics.test_fleet_page import page
from tests.ledger.fleet import HOUR, MONDAY

DOCS = Path(__file__).parents[2] / "docs"
RULES, TESTS = DOCS / "prometheus" / "fleet-alerts.yml", DOCS / "prometheus" / "fleet-alerts-test.yml"
OURS = re.compile(r"\bgpuledger_(?:fleet|collector)_\w+")


def test_the_rules_load_and_fire() -> None:
    """Each alert has a case in which it fires, and one in which it must not."""
    for verb, file in (("check", RULES), ("test", TESTS)):
        done = subprocess.run([promtool(), verb, "rules", file], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    names = re.findall(r"- alert: (\w+)", RULES.read_text("utf-8"))
    tried = re.findall(r"alertname: (\w+)", TESTS.read_text("utf-8"))
    assert sorted(tried) == sorted(names * 2)


def test_every_metric_that_is_named_is_served(tmp_path: Path) -> None:
    """An alert on a name that nobody serves never fires, and nobody notices."""
    fleet, chosen = small_site(), settings(tmp_path)
    fleet.sample("z0", "z0g0", MONDAY + 2 * HOUR, MONDAY + 4 * HOUR)
    fleet.analyze(now=LATER, settings=chosen)
    metrics = Metrics()
    Pulse(fleet.store, Mark.of(fleet.store), metrics)
    text = (page(fleet.store, chosen).exposition() + metrics.exposition()).decode()
    served = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    document = (DOCS / "prometheus.md").read_text("utf-8")
    named = set(OURS.findall(RULES.read_text("utf-8") + document))
    assert len(named) > 20
    assert named - served == set()
    assert {name for name in served if name.startswith("gpuledger_fleet_")} - set(OURS.findall(document)) == set()


def test_prometheus_takes_the_scrape_settings(tmp_path: Path) -> None:
    """They are copied as they stand."""
    (text,) = re.findall(
        r"^```yaml\n(# The server.*?)^```$", (DOCS / "prometheus.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    for name in re.findall(r"/etc/[\w./-]+", text):
        there = tmp_path / Path(name).name
        there.write_bytes(RULES.read_bytes() if name.endswith(".yml") else b"key")
        text = text.replace(name, str(there))
    file = tmp_path / "prometheus.yml"
    file.write_text(text, "utf-8")
    done = subprocess.run([promtool(), "check", "config", "--lint=none", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 rules found" in done.stdout
