"""Batches that tests send: small, true, and different wherever a test asks for it."""

from typing import Any

from agent.wire.envelope import encode

NOW = 1_763_000_000_000_000  # microseconds UTC: 13 November 2025
STREAM = "5f4ee1c8-1de9-4f6d-9d0c-5a8f2ad1f2d3"
Row = dict[str, Any]


def gpu_rows(count: int = 2, **changes: Any) -> list[Row]:
    """Return rows of gpu_samples over ten seconds; `changes` go over each of them."""
    first = {"node": "n14", "started_at": NOW - 10_000_000, "ended_at": NOW, "up": True, "utilization_ratio": 0.5}
    return [
        first | {"gpu_uuid": f"GPU-{index}", "memory_used_bytes": 2**30 + index} | changes for index in range(count)
    ]


def host_rows(**changes: Any) -> list[Row]:
    """Return one row of host_samples."""
    return [{"node": "n14", "started_at": NOW - 10_000_000, "ended_at": NOW, "cpu_busy_ratio": 0.25} | changes]


def body(
    sequence: int = 1, tables: dict[str, list[Row]] | None = None, stream: str = STREAM, sent_at: int = NOW
) -> bytes:
    """Return an encoded batch, of two GPUs and their host where no tables are given."""
    rows = {"gpu_samples": gpu_rows(), "host_samples": host_rows()} if tables is None else tables
    return encode(agent="n14", stream=stream, sequence=sequence, sent_at=sent_at, tables=rows)
