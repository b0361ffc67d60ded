"""docs/import-prometheus.md cannot lie: its settings load, and they keep what is read."""

import re
import subprocess
from pathlib import Path

from collector.config import settings
from collector.prometheus.names import catalogue
from collector.prometheus.pivot import REACH
from collector.prometheus.survey import HOST_SCRAPES
from collector.registry.roles import Right
from tests.collector.prometheus.servers import need

DOCUMENT = Path(__file__).parents[3] / "docs" / "import-prometheus.md"


def snippet() -> str:
    """Return the part of a prometheus.yml."""
    (found,) = re.findall(r"^```yaml\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(found)


def test_prometheus_takes_the_settings(tmp_path: Path) -> None:
    """What is copied from a document has to work."""
    token = tmp_path / "token"
    token.write_text("secret")
    config = tmp_path / "prometheus.yml"
    config.write_text(snippet().replace("/etc/prometheus/gpuledger.token", str(token)))
    subprocess.run([need("promtool", "prometheus"), "check", "config", str(config)], check=True, capture_output=True)


def test_what_is_read_is_kept() -> None:
    """A name that the settings drop would be missing from every row."""
    kept = re.search(r"regex: (up\|DCGM.+)", snippet())
    assert kept is not None
    assert [name for name in catalogue() if not re.fullmatch(kept[1], name)] == []


def test_numbers_are_those_of_the_code() -> None:
    """A rule that is told with another number is another rule."""
    text = DOCUMENT.read_text("utf-8")
    assert f"({REACH:g} scrape intervals without one)" in text
    assert HOST_SCRAPES == 4
    assert "row stands for four scrapes" in text
    assert "remote_write_wait_seconds" in settings()
    assert Right.REMOTE_WRITE
