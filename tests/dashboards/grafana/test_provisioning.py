"""What is copied from docs/grafana.md and docs/alerts.md into a site is whole, in any currency."""

import importlib
import json
import re
from typing import Any

from tests.dashboards.grafana.boards import FOLDER

yaml: Any = importlib.import_module("yaml")  # it has no types
ROOT = FOLDER.parents[1]
RULES = ROOT / "dashboards" / "prometheus"


def test_grafana_is_told_where_the_dashboards_are() -> None:
    """The folder that the document copies to is the one that is provisioned."""
    (provider,) = yaml.safe_load((FOLDER / "provisioning/dashboards/gpuledger.yml").read_text())["providers"]
    assert f"{provider['options']['path']}/" in (ROOT / "docs" / "grafana.md").read_text("utf-8")
    (source,) = yaml.safe_load((FOLDER / "provisioning/datasources/prometheus.yml").read_text())["datasources"]
    assert source["type"] == "prometheus"


def test_what_the_documents_copy_is_there() -> None:
    """A path that moved leaves a command that fails."""
    for name in ("grafana.md", "alerts.md"):
        text = (ROOT / "docs" / name).read_text("utf-8")
        for path in re.findall(r"dashboards/[\w./-]+\.(?:yml|json)", text):
            assert (ROOT / path).is_file(), path


def test_every_dashboard_is_in_the_document() -> None:
    """With what it shows and where that comes from."""
    told = set(re.findall(r"^\| `(\w+\.json)`", (ROOT / "docs" / "grafana.md").read_text("utf-8"), re.MULTILINE))
    assert told == {path.name for path in FOLDER.glob("*.json")}


def test_another_currency_is_one_command() -> None:
    """The command of both documents leaves no dollar behind, in names, units or words."""
    for path in (*FOLDER.glob("*.json"), *(RULES / name for name in ("recording.yml", "fleet.yml", "hosts.yml"))):
        text = path.read_text("utf-8").replace("_usd", "_eur").replace("USD", "EUR")
        assert not re.search(r'usd|USD|\$\{\{|(?<!"renamePattern": ")\$\d', text), path.name
        assert json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
