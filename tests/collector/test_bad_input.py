"""Whatever arrives ends in rows or in one sentence; it never crashes, and what is refused leaves nothing behind."""

import json
import math
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest

from agent.wire.contract import MIN_READER, SCHEMA_VERSION
from agent.wire.envelope import CONTENT_TYPE
from agent.wire.tables import TABLES
from collector.config import CollectorConfig
from collector.errors import BatchError
from collector.pipeline.decoding.arrow_messages import arrow_schema
from collector.pipeline.decoding.batch import decode
from tests.collector.batches import NOW, body, gpu_rows, host_rows
from tests.collector.hostile import compressed_message, message, mutant, numbered, packed, sealed, unpacked
from tests.collector.serving import Running, running
from tests.frames import framed

MUTANTS_OVER_HTTP = 300
DAY = 86_400_000_000
GPU = message("gpu_samples", gpu_rows())
LIMITS = {"body_bytes": 200_000, "unpacked_bytes": 2_000_000, "rows": 1000}
ALLOCATION = {"node": "n1", "run_id": "slurm/alpha/1", "started_at": NOW, "ended_at": NOW - 1}
OWNERSHIP = {"node": "n1", "owned_from": NOW, "owned_until": NOW - 1}
Golden = Callable[[str, str], None]


def _frame(**parameters: bool) -> bytes:
    return framed(unpacked(body()), **parameters)


def _shrunk(frame: bytes) -> bytes:
    """Return a frame that declares 1000 bytes and holds a million: its size stands in the 4 bytes after the fifth."""
    return frame[:5] + (1000).to_bytes(4, "little") + frame[9:]


def _changed(**changes: Any) -> bytes:
    """Return a batch whose second row is changed, past the encoder's own checks."""
    return sealed({"gpu_samples": message("gpu_samples", [*gpu_rows(1), *gpu_rows(1, **changes)])})


CASES: dict[str, bytes] = {
    "nothing": b"",
    "text": b"node,started_at\nn1,0\n",
    "random bytes": random.Random(1).randbytes(500),
    "no size declared": _frame(size=False),
    "no checksum": _frame(checksum=False),
    "cut off": body()[:-20],
    "one bit wrong": bytes([*body()[:-1], body()[-1] ^ 1]),
    "two frames": body() + body(),
    "too large": bytes(LIMITS["body_bytes"] + 1),
    "too large unpacked": packed(bytes(LIMITS["unpacked_bytes"] + 1)),
    "lies about its size": _shrunk(packed(bytes(1_000_000))),
    "too many rows": sealed({"gpu_samples": GPU}, rows=LIMITS["rows"] + 1),
    "header too long": packed(struct.pack("<I", 2**31) + b"{}"),
    "header no JSON": packed(struct.pack("<I", 8) + b"not JSON"),
    "header nested too deep": packed(struct.pack("<I", 60_000) + b"[" * 60_000),
    "header with an endless number": packed(struct.pack("<I", 60_000) + b"1" * 60_000),
    "header names a table twice": sealed({"gpu_samples": GPU}, tables=[["gpu_samples", 2, len(GPU)]] * 2),
    "header with too many tables": sealed({"gpu_samples": GPU}, tables=[[f"t{n}", 0, 0] for n in range(65)]),
    "header with a name of control characters": sealed({"gpu_samples": GPU}, agent="n1\x1b[2J"),
    "header with a sequence beyond 63 bits": sealed({"gpu_samples": GPU}, sequence=2**63),
    "header with a sequence that is a flag": sealed({"gpu_samples": GPU}, sequence=True),
    "table longer than the batch": sealed({"gpu_samples": GPU}, tables=[["gpu_samples", 2, len(GPU) + 1]]),
    "table of negative length": sealed({"gpu_samples": GPU}, tables=[["gpu_samples", 2, -1]]),
    "rows beyond all numbers": sealed({"gpu_samples": GPU}, rows=2**62),
    "negative sequence": sealed({"gpu_samples": GPU}, sequence=-1),
    "needs a newer reader": sealed({"gpu_samples": GPU}, min_reader=SCHEMA_VERSION + 1),
    "unknown table": sealed({"gpu_secrets": GPU}),
    "fewer rows than declared": sealed({"gpu_samples": GPU}, rows=3),
    "message of another table": sealed({"gpu_samples": message("host_samples", host_rows())}, rows=1),
    "message of another type": sealed({"gpu_samples": bytes(pa.schema([("node", pa.string())]).serialize())}),
    "message cut off": sealed({"gpu_samples": GPU[:-100]}),
    "message of zeros": sealed({"gpu_samples": bytes(64)}),
    "empty message": sealed({"gpu_samples": b""}),
    "compressed within": sealed({"gpu_samples": compressed_message("gpu_samples", gpu_rows())}),
    "more columns, same version": sealed(
        {"gpu_samples": message("gpu_samples", gpu_rows(), extra={"glow": pa.array([1.0, 2.0])})}
    ),
    "text that is not UTF-8": sealed({"gpu_samples": GPU.replace(b"n14n14", b"n\xff4n14")}),
    "sent from the far future": sealed({"gpu_samples": GPU}, sent_at=4_000_000_000_000_000),
}


# What a row says: its batch is taken, and the row put aside.
ROWS: dict[str, bytes] = {
    "ratio above one": _changed(utilization_ratio=1.7),
    "ratio not a number": _changed(utilization_ratio=math.nan),
    "watts infinite": _changed(power_watts=math.inf),
    "bytes negative": _changed(memory_used_bytes=-1),
    "bytes beyond belief": _changed(memory_used_bytes=2**61),
    "node missing": _changed(node=None),
    "GPU nameless": _changed(gpu_uuid=""),
    "name endless": _changed(node="n" * 5000),
    "interval of no length": _changed(started_at=NOW),
    "interval backwards": _changed(started_at=NOW + 1_000_000),
    "interval of years": _changed(started_at=NOW - 400 * DAY),
    "before 2015": _changed(started_at=0, ended_at=1),
    "seconds for microseconds": _changed(started_at=1_763_000_000, ended_at=1_763_000_010),
    "after it was sent": _changed(ended_at=NOW + DAY),
    "beyond time": _changed(started_at=-(2**63), ended_at=2**63 - 1),
    "allocation backwards": sealed({"allocations": message("allocations", [ALLOCATION])}, rows=1),
    "allocation ends in the future": sealed(
        {"allocations": message("allocations", [ALLOCATION | {"ended_at": NOW + 400 * DAY}])}, rows=1
    ),
    "allocation of 1970": sealed({"allocations": message("allocations", [ALLOCATION | {"started_at": 1}])}, rows=1),
    "ownership backwards": sealed({"ownership": message("ownership", [OWNERSHIP])}, rows=1),
}


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Running]:
    """A collector with small limits, so that a body may be small and still too large."""
    with running(CollectorConfig(store=tmp_path / "store.duckdb", gather_seconds=0, **LIMITS)) as serving:  # type: ignore[arg-type]
        yield serving


def test_every_bad_batch_is_answered_by_its_golden_sentence(strict: Running, golden: Golden) -> None:
    """Who reads such an answer has a broken agent and little time; the sentences are read as a diff."""
    answers = {}
    for name, bad in CASES.items():
        answer = strict.client.post(bad)
        assert 400 <= answer.status < 500, name
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json["status"] == answer.status
        assert answer.json["detail"] == answer.json["error"]
        answers[name] = {"status": answer.status, "error": answer.json["error"], "reason": answer.json["reason"]}
    golden("collector/errors.json", json.dumps(answers, indent=1, ensure_ascii=False) + "\n")


def test_every_row_that_cannot_be_true_is_told_by_its_golden_sentence(strict: Running, golden: Golden) -> None:
    """A reading that is impossible is some driver's or some clock's fault; the sentence names it."""
    told = {}
    for sequence, (name, bad) in enumerate(ROWS.items()):
        answer = strict.client.post(numbered(bad, sequence))
        assert answer.status == 200, name
        told[name] = {"quarantined": answer.json["quarantined"], "reasons": answer.json["reasons"]}
    golden("collector/quarantine.json", json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def test_what_is_refused_leaves_nothing_and_the_next_batch_is_taken(strict: Running) -> None:
    """All or nothing: half a batch would be a lie, and one bad sender must not stop the others."""
    for bad in CASES.values():
        assert strict.client.post(bad).status != 200
    assert strict.count("receipts") == 0
    assert strict.count("gpu_samples") == strict.count("host_samples") == strict.count("ownership") == 0
    assert strict.client.post(body()).status == 200
    assert strict.count("gpu_samples") == 2


def test_a_good_and_a_bad_table_in_one_batch_store_neither(strict: Running) -> None:
    """A batch is one fact: its host rows cannot be there while its GPU rows were refused."""
    tables = {
        "host_samples": message("host_samples", host_rows()),
        "disk_samples": message("host_samples", host_rows()),
    }
    assert strict.client.post(sealed(tables, rows=1)).status == 400
    assert strict.count("host_samples") == 0


def test_a_batch_may_be_what_a_browser_cannot_send(strict: Running) -> None:
    """Any page in a browser may post text to loopback; a type of our own it may not without asking."""
    answer = strict.client.post(body(), {"Content-Type": "text/plain"})
    assert (answer.status, answer.json["reason"]) == (415, "content_type")


def test_a_declared_length_beyond_the_limit_is_refused_unread(strict: Running) -> None:
    """The limit must hold before memory is spent, not after."""
    answer = strict.client.request(
        "POST", "/v1/batches", b"", {"Content-Type": CONTENT_TYPE, "Content-Length": str(10**12)}
    )
    assert answer.status == 413


def test_a_body_that_never_says_its_length_is_cut_at_the_limit(strict: Running) -> None:
    """A sender may pass over the first check by sending chunks; memory is bounded all the same."""
    headers = {"Content-Type": CONTENT_TYPE, "Transfer-Encoding": "chunked"}
    chunk = b"10000\r\n" + bytes(0x10000) + b"\r\n"
    answer = strict.client.request("POST", "/v1/batches", chunk * 4 + b"0\r\n\r\n", headers)
    assert (answer.status, answer.json["reason"]) == (413, "too_large")


def test_refusals_are_counted_by_reason(strict: Running) -> None:
    """A fleet with one broken agent shows as a rate, before anybody reads a log."""
    strict.client.post(b"")
    strict.client.post(CASES["sent from the far future"])
    metrics = strict.client.get("/metrics").text
    assert 'gpuledger_collector_batches_total{result="envelope"} 1.0' in metrics
    assert 'gpuledger_collector_batches_total{result="clock"} 1.0' in metrics


@pytest.mark.parametrize("mutants", [4_000, pytest.param(50_000, marks=pytest.mark.soak)])
def test_mutants_end_in_rows_or_in_a_sentence(mutants: int) -> None:
    """Unvalidated, such bodies crashed the process in every run tried; a crash here ends the child and the test."""
    code = (
        "import json, sys; from tests.collector.hostile import bombard; print(json.dumps(bombard(int(sys.argv[1]), 7)))"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    child = subprocess.run([sys.executable, "-c", code, str(mutants)], capture_output=True, text=True, env=environment)
    assert child.returncode == 0, child.stderr[-2000:]
    ends = json.loads(child.stdout)
    assert sum(ends.values()) == mutants
    assert (
        {"accepted", "envelope", "schema"}
        <= ends.keys()
        <= {"accepted", "envelope", "schema", "clock", "rows", "too_large", "upgrade"}
    )


def test_no_layout_of_an_arrow_message_brings_us_down() -> None:
    """Every length, null count, offset and size in turn is something else; a crash here ends the child and the test."""
    code = "import json; from tests.collector.hostile import distort; print(json.dumps(distort()))"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert child.returncode == 0, child.stderr[-2000:]
    ends = json.loads(child.stdout)
    assert ends["schema"] > 500
    assert ends.keys() <= {"accepted", "schema"}


def test_mutants_over_http_leave_a_collector_that_works(collector: Running) -> None:
    """The same through the whole server, where an answer must come for every one."""
    dice = random.Random(11)
    statuses = [collector.client.post(mutant(body(), dice)).status for _ in range(MUTANTS_OVER_HTTP)]
    assert set(statuses) <= {200, 400, 409, 413, 422, 426}
    assert collector.client.post(body(10**6)).status == 200
    assert collector.count("receipts") <= statuses.count(200) + 1


def test_a_newer_agents_columns_are_left_alone_and_counted(collector: Running) -> None:
    """Agents are upgraded one by one; a newer one must not go dark, and what is not read must show."""
    newer = message("gpu_samples", gpu_rows(), extra={"glow_ratio": pa.array([0.1, None]), "hue": pa.array(["a", "b"])})
    more = {"gpu_samples": newer, "gpu_dreams": b"anything at all."}
    answer = collector.client.post(sealed(more, schema_version=SCHEMA_VERSION + 1))
    assert answer.status == 200
    assert collector.count("gpu_samples") == 2
    metrics = collector.client.get("/metrics").text
    assert 'gpuledger_collector_ignored_columns_total{kind="column"} 2.0' in metrics
    assert 'gpuledger_collector_ignored_columns_total{kind="table"} 1.0' in metrics


def test_a_newer_version_may_not_have_lost_columns() -> None:
    """New columns are only appended; a table that lost one is another table, and reading it would shift values."""
    with pytest.raises(BatchError, match="gpu_samples has 7 columns") as refused:
        decode(sealed({"gpu_samples": _first_columns(7)}, schema_version=SCHEMA_VERSION + 1), NOW)
    assert refused.value.status == 400


def test_an_older_agents_fewer_columns_are_null() -> None:
    """An agent of an older version sent what it knew; the rest is unknown, and unknown is null."""
    batch = decode(sealed({"gpu_samples": _first_columns(6)}, schema_version=SCHEMA_VERSION - 1), NOW)
    assert batch.tables["gpu_samples"].num_columns == 6


def test_our_own_version_is_readable_by_ourselves() -> None:
    """What the encoder of this release writes, the reader of this release must take."""
    assert MIN_READER <= SCHEMA_VERSION
    assert decode(body(), NOW).row_count == 3


def _first_columns(count: int) -> bytes:
    rows = pyarrow.ipc.read_record_batch(pa.py_buffer(GPU), arrow_schema(TABLES["gpu_samples"]))
    return bytes(rows.select(list(range(count))).serialize())
