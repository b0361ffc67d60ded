"""Alive and ready are two questions: each thing that readiness asks for is broken, seen, mended and seen again."""

import asyncio
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.config import CollectorConfig
from collector.http.health import FATAL, Check, LakeFiles, Readiness, disk, held_up, is_alive
from collector.pipeline.writer import Writer
from collector.store.database import Store
from collector.store.lake import LakeSettings, default_lake
from tests.collector.batches import body
from tests.collector.serving import Running, running
from tests.fleet.postgres import Postgres
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def config(tmp_path: Path) -> CollectorConfig:
    """Settings of a collector of this test's own, which commits at once."""
    return CollectorConfig(store=tmp_path / "store.duckdb", gather_seconds=0, queue_batches=2)


@pytest.fixture
def collector(config: CollectorConfig) -> Iterator[Running]:
    """A collector that answers."""
    with running(config) as serving:
        yield serving


def unready(collector: Running) -> list[str]:
    """Return the names of the checks that fail, as a balancer sees them; batches of these tests are of years ago."""
    answer = collector.client.get("/readyz")
    wrong = [check["name"] for check in answer.json["checks"] if not check["ok"] and check["name"] != "clock"]
    assert answer.status == (503 if wrong else 200)
    assert answer.json["ready"] is not bool(wrong)
    return wrong


def test_a_collector_that_works_is_alive_and_ready(collector: Running) -> None:
    """Every check says how it is in one sentence, and names nothing that a stranger should not read."""
    answer = collector.client.get("/readyz")
    names = [check["name"] for check in answer.json["checks"]]
    assert names == ["store", "writer", "queue", "seal", "disk", "lake", "clock"]
    assert unready(collector) == []
    assert collector.client.get("/healthz").json == {"healthy": True}
    assert str(collector.store.path) not in answer.text


def test_a_store_of_another_release_makes_it_unready(collector: Running) -> None:
    """Who upgraded a store under a running collector must not have batches written into it."""
    with collector.store.hot_session() as session:
        session.execute("INSERT INTO migrations VALUES (999, 'of the future')")
        assert unready(collector) == ["store"]
        session.execute("DELETE FROM migrations WHERE number = 999")
    assert unready(collector) == []


def test_a_commit_that_fails_makes_it_unready_until_one_succeeds(collector: Running) -> None:
    """Nothing is wrong with the process: it stays alive, and takes batches again without a restart."""
    with collector.store.session() as session:
        session.execute("ALTER TABLE host_samples RENAME TO elsewhere")
        assert collector.client.post(body(1)).status == 503
        assert (unready(collector), collector.client.get("/healthz").status) == (["writer"], 200)
        session.execute("ALTER TABLE elsewhere RENAME TO host_samples")
    assert collector.client.post(body(1)).status == 200
    assert unready(collector) == []


def test_a_writer_that_has_ended_is_neither(collector: Running) -> None:
    """Only a restart brings it back, so the supervisor must hear of it."""
    collector.writer.close()
    assert unready(collector) == ["writer"]
    assert collector.client.get("/healthz").status == 503


class GivenUp(Writer):
    """A writer whose store has met a fatal error, after which every statement fails until the file is opened anew."""

    failing = f"FATAL Error: {FATAL} because of a previous fatal error"


GIVES_UP = """
import sys
from collector.http import server
from gpuledger import main
server.Writer = type("GivenUp", (server.Writer,), {"failing": %r})
sys.exit(main(sys.argv[1:]))
"""


def test_a_server_whose_store_duckdb_has_given_up_ends_so_that_it_is_started_anew(config: CollectorConfig) -> None:
    """It answered 503 for as long as nobody looked where there was neither a watchdog nor a liveness probe."""
    with Store.open(config.store) as store:
        assert is_alive(Writer(store, config))
        assert not is_alive(GivenUp(store, config))
    serve = ["serve", "--only", "collector", "--store", str(config.store), "--listen", "127.0.0.1:0"]
    command = [sys.executable, "-c", GIVES_UP % GivenUp.failing, *serve]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert ended.returncode == 3, ended.stderr
    assert "until it is opened anew; start the server again" in ended.stderr


def test_a_full_queue_makes_it_unready_until_it_is_written(config: CollectorConfig) -> None:
    """Batches that come now are told to come later; a balancer can do better than that."""

    class Held(Writer):
        gate, holds = threading.Event(), threading.Event()

        def _commit(self, *given: Any) -> None:
            self.holds.set()
            self.gate.wait(PATIENCE_SECONDS)
            super()._commit(*given)

    with running(config, Held) as collector:
        senders = [threading.Thread(target=collector.client.post, args=(body(number),)) for number in range(3)]
        senders[0].start()
        assert Held.holds.wait(PATIENCE_SECONDS)  # it is being written; the two that come now wait together
        for sender in senders[1:]:
            sender.start()
        until(lambda: collector.writer.waiting[0] == 2, "two batches wait")
        assert unready(collector) == ["queue"]
        Held.gate.set()
        for sender in senders:
            sender.join(PATIENCE_SECONDS)
        assert unready(collector) == []


def test_what_is_not_sealed_for_long_makes_it_unready(config: CollectorConfig) -> None:
    """The lake has been away for long: the hot file grows, and agents keep what the lake has not got."""
    config = replace(config, seal_seconds=3600, ready_seal_seconds=1)
    with Store.open(config.store, lake=default_lake(config.store)):
        pass
    with running(config) as collector:
        assert unready(collector) == []
        assert collector.client.post(body(1)).status == 200
        with collector.store.hot_session() as session:
            session.execute("UPDATE receipts SET received_at = received_at - 60000000")
        until(lambda: unready(collector) == ["seal"], "what is not sealed makes it unready")
        with collector.store.hot_session() as session:
            (collector.writer.mark.upto,) = session.row("SELECT max(batch) FROM receipts")
        assert unready(collector) == []


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "GET"])
def test_balancers_ask_with_any_of_three_methods(collector: Running, method: str) -> None:
    """HAProxy asks with OPTIONS by default, uptime checkers with HEAD: 405 was a dead server."""
    for path in ("/healthz", "/readyz", "/v1/schema", "/metrics"):
        own, answer = collector.client.get(path), collector.client.request(method, path, None, {})
        assert (answer.status, bool(answer.text)) == (200, method == "GET"), path
        assert answer.headers.get("content-type") == own.headers.get("content-type")
    collector.writer.close()
    assert collector.client.request(method, "/readyz", None, {}).status == 503
    assert collector.client.request(method, "/v1/nothing", None, {}).status == 404
    with socket.create_connection(("127.0.0.1", collector.client.port), PATIENCE_SECONDS) as plain:
        plain.sendall(f"{method} /healthz HTTP/1.0\r\n\r\n".encode())
        assert plain.recv(1000).startswith(b"HTTP/1.1 503")


def test_a_catalogue_that_is_away_is_no_dead_store(config: CollectorConfig, tmp_path: Path) -> None:
    """Batches are taken meanwhile; health looked up a table of the hot file in every attached catalogue."""
    with Postgres() as postgres:
        lake = LakeSettings(f"postgres:{postgres.database()}", str(tmp_path / "data"))
        Store.open(config.store, lake=lake).close()
        with running(config, lake=lake) as collector:
            assert collector.client.post(body(1)).status == 200
            assert collector.client.get("/readyz").status == 200
            # An answer of the receiver says that it has read what it wanted of the lake: a catalogue that goes in the
            # middle of a statement may end DuckDB's store, and the server with it (test above).
            kind = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
            assert collector.client.request("POST", "/api/v1/write", b"\0", kind).status == 204
            postgres.kill()
            readiness, taken = collector.client.get("/readyz"), collector.client.post(body(2))
            assert (readiness.status, taken.status) == (200, 200), readiness.text + taken.text
            until(lambda: not LakeFiles(collector.store)().ok, "it is seen that the catalogue is away")
            assert not LakeFiles(collector.store)().refuses
            postgres.start()
            assert until(lambda: LakeFiles(collector.store)().ok, "the catalogue answers")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a PID namespace")
@pytest.mark.parametrize("command", ["serve", "agent"])
def test_the_first_process_of_a_container_ends_while_it_still_starts(command: str, tmp_path: Path) -> None:
    """The kernel drops what process 1 has no handler for: TERM in its first second was lost, and then came KILL."""
    flags = ["--store", str(tmp_path / "s.duckdb"), "--listen", "127.0.0.1:0"] if command == "serve" else []
    words = [sys.executable, "-m", "gpuledger", command, *flags]
    with (tmp_path / "log").open("wb") as log:
        outer = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", *words], stdout=log, stderr=log, cwd=ROOT
        )
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        (inner,) = until(lambda: children.read_text().split(), "it has begun", process=outer)
        status = Path(f"/proc/{inner}/status")
        until(
            lambda: int(re.findall(r"SigCgt:\s+(\w+)", status.read_text())[0], 16) >> (signal.SIGTERM - 1) & 1,
            "it hears TERM",
            process=outer,
        )
        os.kill(int(inner), signal.SIGTERM)
        assert outer.wait(PATIENCE_SECONDS) in (0, 128 + signal.SIGTERM), (tmp_path / "log").read_text()


def test_a_full_disk_makes_it_unready(tmp_path: Path) -> None:
    """Before it is full to the last byte: a log needs room to be folded in."""
    assert disk([tmp_path], 1).ok
    assert not disk([tmp_path], 2**62).ok
    assert not disk([tmp_path, tmp_path / "gone"], 1).ok
    assert disk([], 2**62).ok


def test_checks_that_hang_are_an_answer_and_do_not_pile_up() -> None:
    """A disk that hangs must not make the endpoint hang too, nor take a thread from the pool for every question."""
    release, rounds = threading.Event(), []

    def hanging() -> Check:
        rounds.append(1)
        release.wait(PATIENCE_SECONDS)
        return Check("store", True, "it answers")

    async def asked() -> list[list[Check]]:
        readiness = Readiness([hanging], patience_seconds=0.01)
        answers = [await readiness.checks() for _ in range(3)]
        release.set()
        await readiness._round  # type: ignore[misc]
        return answers

    answers = asyncio.run(asked())
    assert [[check.name for check in answer] for answer in answers] == [["answer"]] * 3
    assert len(rounds) == 1


def test_who_asks_is_not_told_what_was_seen_before() -> None:
    """A look that began before the disk filled up knows nothing of it, and it ends after the question came."""
    state, looks, seen = {"ok": True}, threading.Event(), threading.Event()

    def slow() -> Check:
        ok = state["ok"]
        seen.set()
        looks.wait(PATIENCE_SECONDS)
        return Check("disk", ok, "a sentence about the disk")

    async def asked() -> list[bool]:
        readiness = Readiness([slow], patience_seconds=PATIENCE_SECONDS)
        first = asyncio.create_task(readiness.checks())
        await asyncio.to_thread(seen.wait, PATIENCE_SECONDS)
        state["ok"] = False
        others = [asyncio.create_task(readiness.checks()) for _ in range(3)]
        await asyncio.sleep(0)
        looks.set()
        return [check.ok for answer in await asyncio.gather(first, *others) for check in answer]

    assert asyncio.run(asked()) == [True, False, False, False]


def test_a_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A log that repeats what is known hides what is new."""
    state = {"ok": True}
    readiness = Readiness([lambda: Check("disk", state["ok"], "a sentence about the disk")])

    async def looked(ok: bool) -> None:
        state["ok"] = ok
        await readiness.checks()

    with caplog.at_level(logging.WARNING, "collector.http.health"):
        for ok in (True, False, False, True, True):
            asyncio.run(looked(ok))
    assert [record.getMessage() for record in caplog.records] == [
        "not ready: a sentence about the disk",
        "ready again",
    ]


def test_readiness_is_a_metric_too(collector: Running) -> None:
    """Where no balancer asks, an alert can: gpuledger_collector_ready, looked at every few seconds."""
    until(lambda: "gpuledger_collector_ready 1.0" in collector.client.get("/metrics").text, "it is ready")
    collector.writer.close()
    assert unready(collector) == ["writer"]
    assert "gpuledger_collector_ready 0.0" in collector.client.get("/metrics").text


@pytest.mark.parametrize(
    ("state", "running", "words"),
    [("D", 1, "a disk may hang"), ("R", 1, "the CPUs are busy"), ("S", 999, "the CPUs are busy")],
)
def test_what_holds_the_checks_up_is_what_the_kernel_says(tmp_path: Path, state: str, running: int, words: str) -> None:
    """ "A disk may hang" sends somebody to a disk; where the processors are busy there is nothing to be found."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a) b) {state} 1 7 7")
    (tmp_path / "loadavg").write_text(f"9.0 9.0 9.0 {running}/2000 4711")
    assert held_up(7, tmp_path, tmp_path / "loadavg") == words
    assert held_up(8, tmp_path, tmp_path / "loadavg") == "the reason is not known"
