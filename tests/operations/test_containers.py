"""The image and the compose file: nothing that they name is missing, and neither gives more rights than are used."""

import importlib
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from agent.config import AgentConfig
from agent.exposition import exposition
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.http.server import STOPPING_MICROSECONDS
from collector.pipeline.metrics import Metrics
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "compose.yaml"
BESIDE = ROOT / "docs" / "compose"
PROMTOOL = shutil.which("promtool")
yaml: Any = importlib.import_module("yaml")  # uvicorn brings it along; it has no types

needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not here; make services installs it")


def services() -> dict[str, Any]:
    """Return the services of the compose file."""
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


def targets() -> set[str]:
    """Return the targets of the Dockerfile."""
    return set(re.findall(r"^FROM \S+ AS (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE))


def everything() -> dict[str, Any]:
    """Return the compose file with the agent that is commented out in it."""
    lines = COMPOSE.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line == "  # agent:")
    end = next(number for number, line in enumerate(lines) if number > start and not line.startswith("  #"))
    awake = [line.replace("  # ", "  ", 1) if start <= number < end else line for number, line in enumerate(lines)]
    awake = [line.replace("  # spool", "  spool") for line in awake]
    found: dict[str, Any] = yaml.safe_load("\n".join(awake))
    return found


def test_what_the_compose_file_names_is_there() -> None:
    """Targets, mounted files, volumes and secrets; of the agent that is commented out too."""
    document = everything()
    assert set(document["services"]) == {"server", "prometheus", "agent"}
    for service in document["services"].values():
        if "build" in service:
            assert service["build"]["target"] in targets()
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            assert (ROOT / source).is_file() if source.startswith(".") else source in document["volumes"]
        assert set(service.get("secrets", [])) <= set(document["secrets"])
        assert set(service.get("depends_on", {})) <= set(document["services"])


def variables(environment: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield package and key of each setting."""
    for name in environment:
        match = re.fullmatch(r"GPULEDGER_(AGENT|COLLECTOR|ANALYZER)_(.+)", name)
        assert match, f"{name} is no setting of ours"
        yield match[1].lower(), match[2].lower()


def test_every_setting_in_it_is_one() -> None:
    """A misspelt variable would end the server at its start, in a loop."""
    kinds: dict[str, Any] = {"agent": AgentConfig, "collector": CollectorConfig, "analyzer": Settings}
    known = {name: {key.name for key in fields(kind)} for name, kind in kinds.items()}
    for service in everything()["services"].values():
        for package, key in variables(service.get("environment", {})):
            assert key in known[package]
    for package, table in tomllib.loads((BESIDE / "gpuledger.toml").read_text()).items():
        assert set(table) <= known[package]


@pytest.mark.parametrize("name", ["server", "prometheus"])
def test_a_service_has_no_right_that_it_does_not_use(name: str) -> None:
    """As the systemd unit and the manifests have it."""
    service = services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "mem_limit" in service
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert not service.get("privileged")


def test_the_server_may_finish_and_is_nobody() -> None:
    """Docker kills after ten seconds by itself; root in a container is root on the host if it gets out."""
    seconds = int(services()["server"]["stop_grace_period"].removesuffix("s"))
    assert seconds * 1_000_000 == STOPPING_MICROSECONDS
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "USER 10001:10001" in dockerfile
    assert '"/opt/gpuledger/bin/gpuledger", "admin", "probe", "/etc' in dockerfile
    assert '"/opt/gpuledger/bin/gpuledger", "agent", "probe"]' in dockerfile


def test_an_image_says_what_it_is_and_of_what() -> None:
    """Bases by their digest: a tag is moved by whoever owns it. Labels by OCI's names, of this release."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    digest = re.compile(r"docker\.io/\S+:[\w.-]+@sha256:[0-9a-f]{64}")
    assert digest.fullmatch(re.findall(r"^ARG BASE=(.*)$", dockerfile, re.MULTILINE)[0])
    others = [each["image"] for each in services().values() if not each["image"].startswith("gpuledger-")]
    assert others
    assert all(digest.fullmatch(image) for image in others)
    assert re.findall(r"^ARG VERSION=(.*)$", dockerfile, re.MULTILINE) == [project["version"]]
    assert f'org.opencontainers.image.licenses="{project["license"]}"' in dockerfile
    for name in ("title", "description"):
        assert dockerfile.count(f"org.opencontainers.image.{name}=") == 2
    for name in ("vendor", "version", "revision"):
        assert f"org.opencontainers.image.{name}=" in dockerfile


def test_the_compose_file_is_one() -> None:
    """By the compose specification, where its reader is installed (pip install compose-spec)."""
    try:
        reader: Any = importlib.import_module("compose_spec")
    except ModuleNotFoundError:
        pytest.skip("optional: compose-spec is not installed")
    reader.PyCompose.from_yaml(COMPOSE.read_text()).validate()


@needs_promtool
def test_prometheus_takes_its_settings_and_alerts(tmp_path: Path) -> None:
    """promtool reads both as Prometheus will."""
    for name in ("prometheus.yml", "alerts.yml"):
        text = (BESIDE / name).read_text().replace("/run/secrets/token", str(tmp_path / "token"))
        (tmp_path / name).write_text(text)
    for name in ("recording.yml", "fleet.yml"):
        shutil.copy(ROOT / "dashboards" / "prometheus" / name, tmp_path)
    (tmp_path / "token").write_text("secret")
    command = [str(PROMTOOL), "check", "config", str(tmp_path / "prometheus.yml")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"SUCCESS: \d+ rules found", ran.stdout)


def test_alerts_ask_for_metrics_that_there_are() -> None:
    """An alert on a metric that was renamed stays silent for ever."""
    metrics = Metrics()
    source = "".join(path.read_text() for path in (ROOT / "collector").rglob("*.py"))
    told = exposition(metrics.registry)[0].decode() + source
    asked = set(re.findall(r"gpuledger_[a-z_]+", (BESIDE / "alerts.yml").read_text()))
    assert asked
    for name in asked:
        stem = name.removesuffix("_total")
        assert stem in told or stem.removeprefix("gpuledger_collector_") in told, name


RULES = """
rule_files: [alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'up{job="gpuledger"}', values: "0x30"}
      - {series: 'gpuledger_collector_ready', values: "0x30"}
      - {series: 'gpuledger_collector_commit_failures_total', values: "0+1x30"}
    alert_rule_test:
      - {alertname: GpuledgerDown, eval_time: 3m, exp_alerts: []}
      - alertname: GpuledgerDown
        eval_time: 10m
        exp_alerts:
          - exp_labels: {severity: page, job: gpuledger}
            exp_annotations:
              summary: gpuledger has not answered for 5 minutes
              description: Agents keep their batches on disk until it does. Look at its log, then gpuledger doctor.
  - interval: 1m
    input_series:
      - {series: 'gpuledger_collector_ready', values: "1x30"}
      - {series: 'gpuledger_collector_commit_failures_total', values: "3x30"}
    alert_rule_test:
      - {alertname: GpuledgerNotReady, eval_time: 20m, exp_alerts: []}
      - {alertname: GpuledgerCommitsFail, eval_time: 20m, exp_alerts: []}
"""


@needs_promtool
def test_alerts_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    """Down for three minutes is a restart; down for ten is somebody's night."""
    shutil.copy(BESIDE / "alerts.yml", tmp_path)
    (tmp_path / "tests.yml").write_text(RULES)
    command = [str(PROMTOOL), "test", "rules", str(tmp_path / "tests.yml")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ran.returncode == 0, ran.stdout + ran.stderr
