"""Keys are nowhere but with their holders: no log, no answer, no error, no file of ours has one."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.collector.access.conftest import TOKEN, bearer
from tests.collector.batches import body
from tests.collector.serving import Client
from tests.operations.commands import said
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[3]


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `gpuledger admin access …` on the site of this folder."""
    line = ["admin", "access", words[0], "--store", str(folder / "s.duckdb"), *words[1:]]
    status, out, err = said(line)
    assert status == 0
    return subprocess.CompletedProcess(line, 0, out, err)


def test_no_key_is_anywhere_in_the_clear(tmp_path: Path) -> None:
    """A server in its own process and the commands beside it, right and wrong keys; then everything is searched."""
    shown = [
        command(tmp_path, "add", "--role", "read", "--name", "grafana"),
        command(tmp_path, "add", "--role", "agent", "--name", "n14", "--node", "n14"),
        command(tmp_path, "join", "--node-glob", "n*", "--uses", "3"),
    ]
    read, agent, join = (one.stdout.strip() for one in shown)
    rotated = command(tmp_path, "rotate", read.split("_")[2])
    with socket.create_server(("127.0.0.1", 0)) as free:
        client = Client(free.getsockname()[1])
    line = [sys.executable, "-m", "gpuledger", "serve", "--store", str(tmp_path / "s.duckdb"), "--lake", "none"]
    line += ["--listen", f"127.0.0.1:{client.port}"]
    environment = os.environ | {"GPULEDGER_COLLECTOR_TOKENS": TOKEN}
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(line, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            until(lambda: is_up(client), "the server answers", process=server)
            answers = asked(client, read, agent, join, rotated.stdout.strip())
        finally:
            server.terminate()
            assert server.wait(PATIENCE_SECONDS) == 0
    listings = [
        command(tmp_path, "list", "--all"),
        command(tmp_path, "list", "--json"),
        command(tmp_path, "audit", "--json"),
    ]
    said = [answer for answer in answers if '"key"' not in answer]
    said += [one.stderr for one in (*shown, rotated)] + [one.stdout + one.stderr for one in listings]
    brought = [answer.split('"key":"')[1].split('"')[0] for answer in answers if '"key":"' in answer]
    assert len(brought) == 1
    secrets = [text.split("_", 3)[3] for text in (read, agent, join, rotated.stdout.strip(), *brought)] + [TOKEN]
    assert len(set(secrets)) == 6
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"log", "s.duckdb", "s.duckdb.registry.sqlite"} <= {path.name for path in files}
    for secret in secrets:
        assert not [path for path in files if secret.encode() in path.read_bytes()]
        assert not [text for text in said if secret in text]


def asked(client: Client, read: str, agent: str, join: str, rotated: str) -> list[str]:
    """Ask rightly and wrongly, and return all answers."""
    json_type = {"Content-Type": "application/json"}
    enrolled = f'{{"token": "{join}", "node": "n15"}}'.encode()
    wrong = f'{{"token": "{join}", "node": "other"}}'.encode()
    answers = [
        *(
            client.get(path, bearer(key))
            for path in ("/", "/metrics", "/v1/schema", "/nowhere")
            for key in (read, rotated, TOKEN)
        ),
        *(client.get("/metrics", bearer(key)) for key in (agent, join, read[:-1], read + "x", TOKEN + "x")),
        client.get(f"/runs/{read}", bearer(read)),
        client.get(f"/v1/read?what={TOKEN}", bearer(read)),
        client.post(body(), bearer(agent)),
        client.post(body(), bearer(read)),
        client.post(b"no batch", bearer(agent)),
        client.request("POST", "/v1/enrol", enrolled, json_type),
        client.request("POST", "/v1/enrol", wrong, json_type),
    ]
    assert {answer.status for answer in answers} >= {200, 201, 400, 401, 403}
    # What somebody writes into an address comes back in the sentence about it, and to nobody else.
    return [answer.text for answer in answers if answer.status not in (400, 404) or "batch" in answer.text]


def is_up(client: Client) -> bool:
    """Whether the server is there."""
    try:
        return client.get("/healthz").status == 200
    except OSError:
        return False
