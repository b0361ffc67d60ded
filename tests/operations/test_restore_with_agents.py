"""The disk of a served store is lost: what the backup had and what agents still hold comes back, each batch once."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.clock import Clock
from agent.delivery.link import Backoff, Link
from agent.delivery.sender import Sender
from agent.spool.queue import Spool
from agent.spool.segment_store import SegmentStore
from agent.wire.envelope import encode
from analyzer.interfaces.cli.backups import backup, restore, verify
from collector.backup.backup_maker import backups
from collector.config import CollectorConfig
from collector.store.database import open_store
from tests.collector.serving import Running, running
from tests.waiting import until


class Host:
    """An agent's spool and sender, which the test turns by hand."""

    def __init__(self, folder: Path, node: str = "n14") -> None:
        self._node = node
        self._spool = Spool(SegmentStore(folder), 10**8, 10**8)
        self._sender: Sender | None = None

    def connect(self, port: int) -> None:
        """Send to this collector from now on; its address is new where the collector is."""
        if self._sender is None:
            self._sender = Sender(self._spool, Link(f"http://127.0.0.1:{port}"), Clock(), Backoff(lambda: 0.0))
        else:
            self._sender.close()
            self._sender._home = self._sender._link = Link(f"http://127.0.0.1:{port}")

    def read(self, count: int) -> None:
        """Put batches into the spool, each of one sample."""
        for _ in range(count):
            self._spool.append(partial(_batch, self._node))

    def deliver(self) -> None:
        """Send what waits."""
        assert self._sender is not None
        while self._spool.waiting:
            assert self._sender.step(0) == 0.0

    @property
    def held(self) -> int:
        """How many batches it could send again."""
        return len(self._spool._kept) + self._spool.waiting

    def close(self) -> None:
        """End as an agent does."""
        assert self._sender is not None
        self._sender.close()
        self._spool.close()


def _batch(node: str, stream: str, sequence: int) -> bytes:
    now = time.time_ns() // 1000
    row: dict[str, Any] = {
        "node": node,
        "gpu_uuid": f"GPU-{node}",
        "started_at": now - 1000,
        "ended_at": now,
        "up": True,
    }
    tables = {"gpu_samples": [row | {"memory_used_bytes": sequence}]}
    return encode(agent=node, stream=stream, sequence=sequence, sent_at=now, tables=tables)


def delivered(collector: Running) -> list[int]:
    """Return which batches' samples are there, once for each time."""
    until(lambda: collector.store.lake is not None and _unsealed(collector) == 0, "all is sealed")
    with collector.store.session() as session:
        return [number for (number,) in session.rows("SELECT memory_used_bytes FROM gpu_samples ORDER BY 1")]


def _unsealed(collector: Running) -> int:
    with collector.store.hot_session() as session:
        return int(session.row("SELECT count(*) FROM receipts WHERE batch > ?", [collector.writer.mark.upto])[0])


@contextmanager
def served(store: Path, seal_seconds: float) -> Iterator[Running]:
    """Serve a store with a lake beside it."""
    config = CollectorConfig(store=store, gather_seconds=0, seal_seconds=seal_seconds)
    open_store(config).close()  # makes the lake that the server then finds
    with running(config) as collector:
        yield collector


@pytest.mark.soak
def test_a_lost_disk_costs_what_was_sealed_after_the_backup_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was sealed since, agents were told to forget; all before is in the backup, all after they send again."""
    store, host = tmp_path / "store.duckdb", Host(tmp_path / "spool")
    with served(store, seal_seconds=0.2) as collector:
        host.connect(collector.client.port)
        host.read(5)
        host.deliver()
        assert len(delivered(collector)) == 5
        url = f"http://127.0.0.1:{collector.client.port}"
        assert backup(["--server", url, "--to", "nightly"]) == 0
        assert "1 files" not in capsys.readouterr().out
        host.read(1)
        host.deliver()  # after the backup, sealed: this one the agent may forget
        assert len(delivered(collector)) == 6
        host.read(1)
        host.deliver()  # by which it hears so
    with served(store, seal_seconds=3600) as collector:
        host.connect(collector.client.port)
        host.read(3)
        host.deliver()  # committed, never sealed: answered for, and kept by the agent
        sent = 10
    folder = tmp_path / "kept"
    shutil.move(tmp_path / "store.duckdb.backups" / "nightly", folder)
    for path in [*tmp_path.glob("store.duckdb*")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    assert verify([str(folder)]) == 0
    assert restore([str(folder), "--store", str(store)]) == 0
    with served(store, seal_seconds=0.2) as collector:
        host.connect(collector.client.port)
        host.read(1)
        host.deliver()
        host.deliver()  # the answers' sealed_through has fallen, so what is kept waits again
        found = delivered(collector)
    host.close()
    assert len(found) == len(set(found)), "nothing counts twice"
    lost = set(range(sent + 1)) - set(found)
    assert lost <= {5, 6}, "only what was sealed after the backup"
    assert set(range(5)) | {7, 8, 9, 10} <= set(found)


def test_the_commands_say_what_they_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Backup, verify, restore, without a server; a damaged one is exit 1 and names the file."""
    store, folder = tmp_path / "store.duckdb", tmp_path / "backups"
    open_store(CollectorConfig(store=store)).close()
    assert backup(["--store", str(store), "--to", str(folder)]) == 0
    assert "of which" in capsys.readouterr().out
    assert verify([str(folder)]) == 0
    assert capsys.readouterr().out.endswith("it is whole\n")
    assert restore([str(folder), "--store", str(tmp_path / "new.duckdb")]) == 0
    assert "the store as of" in capsys.readouterr().out
    (newest,) = backups(folder)
    os.truncate(newest / "store.duckdb", 10)
    assert verify([str(newest)]) == 1
    assert "WRONG  store.duckdb has 10 bytes" in capsys.readouterr().out


@pytest.mark.parametrize("to", ["../elsewhere", "/etc/cron.d", "a/../../b", "a\0b"])
def test_a_server_writes_only_below_its_folder(tmp_path: Path, to: str) -> None:
    """Whoever has an administrator's key has not thereby the disk of the machine."""
    with served(tmp_path / "store.duckdb", 3600) as collector:
        answer = collector.client.request(
            "POST", "/v1/backup", json.dumps({"to": to}).encode(), {"Content-Type": "application/json"}
        )
        assert (answer.status, "below" in answer.json["detail"]) == (400, True)
        assert collector.client.get("/v1/backup").json == {"started_at": None, "last": None}


def test_a_backup_that_fails_is_told(tmp_path: Path) -> None:
    """Whoever asked waits for it, and must not wait for ever."""
    with served(tmp_path / "store.duckdb", 3600) as collector:
        (tmp_path / "store.duckdb.backups").write_text("a file where the folder should be")
        headers = {"Content-Type": "application/json"}
        assert collector.client.request("POST", "/v1/backup", b"{}", headers).status == 202
        until(lambda: collector.client.get("/v1/backup").json["last"] is not None, "the backup has ended")
        assert "cannot write a backup" in collector.client.get("/v1/backup").json["last"]["error"]
