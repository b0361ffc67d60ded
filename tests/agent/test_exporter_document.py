"""docs/prometheus.md cannot lie: its settings load, its queries run and answer, its table of fields is ours."""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agent.config import load
from agent.metrics.families import Scraped, registry
from agent.wire.dcgm import fields
from tests.agent.situations import SITUATIONS, Situation, lived, uuid
from tests.agent.test_exporter_situations import promtool

DOCUMENT = Path(__file__).parents[2] / "docs" / "prometheus.md"
HEADER = ("| before 4.9 | unit | since 4.9 | unit |", "|---|---|---|---|")


def blocks(language: str) -> list[str]:
    """Return the document's code of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def query(words: str) -> str:
    """Return the query below a question."""
    after = DOCUMENT.read_text("utf-8").split(words, 1)[1]
    found = re.search(r"```promql\n(.*?)```", after, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_table_of_fields_is_ours(request: pytest.FixtureRequest) -> None:
    """A name that is promised and not served is an empty panel."""
    rows = [
        f"| `{field.legacy}` | {field.legacy_unit.name} | `{field.current}` | {field.current_unit.name} |"
        for field in fields()
    ]
    table = "\n".join([*HEADER, *rows])
    text = DOCUMENT.read_text("utf-8")
    if request.config.getoption("--update-golden"):
        before, _, rest = text.partition(HEADER[0])
        DOCUMENT.write_text(before + table + rest[rest.index("\n\n") :], "utf-8")
    assert table in DOCUMENT.read_text("utf-8"), "run pytest --update-golden"


def test_the_settings_are_accepted(tmp_path: Path) -> None:
    """They are copied as they stand."""
    file = tmp_path / "gpuledger.toml"
    file.write_text(blocks("toml")[0], "utf-8")
    assert load(file, {}).scrape_token == "a long secret"


def test_prometheus_takes_the_scrape_settings(tmp_path: Path) -> None:
    """Indentation is easily wrong; the relabelling belongs below the job."""
    scrape, relabel, _ = blocks("yaml")  # the third is the server's: tests/fleet_metrics
    for path in re.findall(r"/etc/\S+", scrape):
        there = tmp_path / Path(path).name
        there.touch()
        scrape = scrape.replace(path, str(there))
    file = tmp_path / "prometheus.yml"
    file.write_text(scrape + relabel, "utf-8")
    done = subprocess.run([promtool(), "check", "config", "--lint=none", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_query_is_one(tmp_path: Path) -> None:
    """All of them, those too whose answers are not tested below."""
    rules = [{"record": f"q:{number}", "expr": text} for number, text in enumerate(blocks("promql"))]
    file = tmp_path / "rules.json"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "document", "rules": rules}]}), "utf-8")
    done = subprocess.run([promtool(), "check", "rules", file], capture_output=True, text=True)
    assert len(rules) >= 8
    assert done.returncode == 0, done.stdout + done.stderr


def test_activity_is_joined_with_runs(tmp_path: Path) -> None:
    """The join is many to one: a shared GPU has several runs."""
    run = {"run_id": "slurm/alpha/81234", "user": "mira"}
    answers(tmp_path, "healthy", query("part of the chips?"), [(run, 0.62)])


def test_power_is_divided_between_sharers(tmp_path: Path) -> None:
    """What two share is drawn once."""
    runs = [f"kubernetes/prod/{start}0c3a-1111-4222-8333-444455556666" for start in ("aaaa", "bbbb")]
    answers(tmp_path, "time_sliced", query("each run draw?"), [({"run_id": run}, 612.5 / 2) for run in runs])


def test_lost_gpus_are_found(tmp_path: Path) -> None:
    """A GPU that is gone is a series of 0, not the absence of one."""
    gone = {"__name__": "gpuledger_gpu_up", "instance": "n14:9477", "gpu_uuid": uuid(1)}
    answers(tmp_path, "lost_gpu", query("have fewer than they should?"), [(gone, 0)])
    answers(tmp_path, "lost_gpu", blocks("promql")[5], [({"instance": "n14:9477"}, 1)])


def test_free_gpus_are_found(tmp_path: Path) -> None:
    """Of an XID storm on a GPU that nobody holds; and none where all are held."""
    free = {"__name__": "gpuledger_gpu_up", "instance": "n14:9477", "gpu_uuid": uuid(0)}
    answers(tmp_path, "xid_storm", query("held by nobody?"), [(free, 1)])
    answers(tmp_path, "healthy", query("held by nobody?"), [])


def test_reasons_are_found(tmp_path: Path) -> None:
    """Why profiling is missing is what users ask first."""
    why = {"instance": "n14:9477", "gpu_uuid": uuid(0), "subject": "activity", "reason": "GPM needs Hopper or newer"}
    name = {"__name__": "gpuledger_gpu_supported"}
    answers(tmp_path, "without_gpm", query("measured here, and why?"), [(name | why, 0)])


def answers(tmp_path: Path, name: str, expression: str, expected: Sequence[tuple[dict[str, str], float]]) -> None:
    """Check what Prometheus answers on a situation that stands for some minutes."""
    series = [{"series": f"{written}", "values": f"{value}x20"} for written, value in _series(SITUATIONS[name]())]
    samples = [{"labels": _written(labels), "value": value} for labels, value in expected]
    question = {"expr": expression, "eval_time": "15m", "exp_samples": samples}
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [question]}
    file = tmp_path / "test.json"
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}), "utf-8")
    done = subprocess.run([promtool(), "test", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _series(situation: Situation) -> list[tuple[str, float]]:
    text = generate_latest(registry(lived(situation), Scraped(supported=lambda: situation.supported))).decode()
    return [
        (_written({"__name__": sample.name, "instance": "n14:9477"} | sample.labels), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def _written(labels: dict[str, str]) -> str:
    inside = ", ".join(f"{name}={json.dumps(value)}" for name, value in labels.items() if name != "__name__")
    return f"{labels.get('__name__', '')}{{{inside}}}"
