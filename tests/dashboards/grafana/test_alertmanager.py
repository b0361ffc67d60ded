"""An alert from a host's /metrics to whoever is called: Prometheus, our rules, Alertmanager, a webhook."""

import json
import queue
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from analyzer.interfaces.alarms.alarm import Alarm, alertmanager_body
from tests.collector.prometheus.servers import Exporter, alertmanager, need, prometheus
from tests.waiting import PATIENCE_SECONDS

RULES = Path(__file__).parents[3] / "dashboards" / "prometheus"
CONFIG = RULES / "alertmanager.yml"
GPU = "GPU-5a1c0000-0000-4000-8000-000000000001"
PAGES = "https://gpuledger.example"


class Host(Exporter):
    """A host of which a GPU reports XID errors, more with each scrape; and what the server says of its pages."""

    def answered(self) -> str:
        """Return the next page."""
        self.scrapes += 1
        return (
            f'gpuledger_fleet_info{{fleet="alpha",currency="USD",url="{PAGES}"}} 1\n'
            'gpuledger_agent_build_info{version="1.2.3",node="n14"} 1\n'
            f'gpuledger_gpu_xid_class_events_total{{gpu_uuid="{GPU}",class="hardware"}} {self.scrapes}\n'
        )


@contextmanager
def webhook() -> Iterator[tuple[str, "queue.Queue[dict[str, Any]]"]]:
    """Yield an address and what is posted to it."""
    told: queue.Queue[dict[str, Any]] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/", told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_alertmanager_takes_our_settings() -> None:
    """They are copied as they stand."""
    program = need("amtool", "prometheus-alertmanager")
    done = subprocess.run([program, "check-config", CONFIG], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 receivers" in done.stdout


@pytest.mark.parametrize(
    ("rule", "urgent", "receiver"),
    [
        ("broken/gpu_lost", True, "who-is-on-call"),
        ("communicating/hang", True, "who-is-on-call"),
        ("fleet/ecc/xid", True, "who-is-on-call"),
        ("fleet/silent_agents/silent", True, "people"),
        ("starved/storage", False, "people"),
    ],
)
def test_what_the_server_calls_urgent_reaches_who_is_on_call(rule: str, urgent: bool, receiver: str) -> None:
    """Its alarms bear the words that the shipped routes ask for: those of the rules of Prometheus."""
    alarm = Alarm("f-1", rule, urgent, "team-nlp", "run", "It hangs.", None, None, 0, None)
    (alert,) = json.loads(alertmanager_body([alarm], [], 1, "alpha", "USD"))
    labels = [f"{name}={text}" for name, text in alert["labels"].items()]
    program = need("amtool", "prometheus-alertmanager")
    verb = [program, "config", "routes", "test", f"--config.file={CONFIG}", f"--verify.receivers={receiver}"]
    done = subprocess.run([*verb, *labels], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_severity_has_its_route() -> None:
    """Rules, routes and the server's alarms know the same words, and each comes out at somebody."""
    given = {
        severity
        for path in (*RULES.glob("*.yml"), RULES.parents[1] / "docs/compose/alerts.yml")
        for severity in re.findall(r"severity: (\w+)", path.read_text("utf-8"))
    }
    assert given == {"page", "ticket", "info"}
    assert set(re.findall(r'\[severity="(\w+)"\]', CONFIG.read_text("utf-8"))) <= given


def test_who_is_called_learns_which_gpu_and_where_to_look(tmp_path: Path) -> None:
    """Every part is the real one: a label or a link that is lost between two of them would be lost here."""
    host = Host()
    try:
        with webhook() as (url, told):
            config = re.sub(r'"http://[^"]+"', json.dumps(url), CONFIG.read_text("utf-8"))
            config = config.replace("group_wait: 1m", "group_wait: 0s")
            scrape = f'[{{job_name: hosts, static_configs: [{{targets: ["127.0.0.1:{host.port}"]}}]}}]'
            rules = [RULES / "recording.yml", RULES / "hosts.yml"]
            with (
                alertmanager(tmp_path / "alertmanager", config) as manager,
                prometheus(tmp_path / "prometheus", scrape, rules=rules, alertmanager=manager),
            ):
                notice = told.get(timeout=PATIENCE_SECONDS)
    finally:
        host.close()
    (alert,) = notice["alerts"]
    assert (notice["receiver"], notice["status"]) == ("who-is-on-call", "firing")
    assert alert["labels"]["alertname"] == "GpuXid"
    assert alert["labels"]["gpu_uuid"] == GPU
    assert alert["annotations"]["link"] == f"{PAGES}/?at=now&node=n14#node"
    assert "Drain the host" in alert["annotations"]["description"]
