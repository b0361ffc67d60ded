"""Make the store of a release with that release's own code: two hosts, three runs, four hours, analysed.

    git archive RELEASE | tar x -C CHECKOUT        (0000-0002: e56da9e^, 0000-0003: dfb1515)
    python tests/data/stores/make.py CHECKOUT tests/data/stores/NAME.duckdb.xz

Rows arrive as they would from agents: encoded, decoded, landed with receipts. Nothing of this checkout is imported.
"""

import lzma
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

MINUTE = 60_000_000
HOUR = 60 * MINUTE
MONDAY = 1_762_732_800_000_000  # 2025-11-10 00:00 UTC
STREAMS = {"n1": "0c5f7a52-6f0e-4b0e-9a3a-0d5b6d0f3a01", "n2": "0c5f7a52-6f0e-4b0e-9a3a-0d5b6d0f3a02"}
WORKING = {"up": True, "utilization_ratio": 0.99, "utilization_zero_ratio": 0.0, "sm_active_ratio": 0.9}
IDLE = {"up": True, "utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}
PRICES = """
[[price]]
sku = "H100-80GB"
purchase_option = "any"
usd_per_gpu_hour = 2.6
from = 2020-01-01
as_of = 2025-01-01
source = "invented for this store"
"""
Row = dict[str, Any]


def batches() -> list[tuple[str, int, dict[str, list[Row]]]]:
    """Return (node, sequence, tables): an hour of a host in each batch."""
    made = []
    for node in STREAMS:
        for hour in range(4):
            start = MONDAY + hour * HOUR
            made.append((node, hour + 1, {"gpu_samples": samples(node, start), **(once(node) if hour == 3 else {})}))
    return made


def samples(node: str, start: int) -> list[Row]:
    """Return an hour of two GPUs, every five minutes; the second of n2 is free, the first of n1 idles in the end."""
    rows = []
    for index in range(2):
        idle = (node, index) == ("n2", 1) or (node == "n1" and index == 0 and start >= MONDAY + 2 * HOUR)
        for began in range(start, start + HOUR, 5 * MINUTE):
            place = {
                "node": node,
                "gpu_uuid": f"GPU-{node}-{index}",
                "started_at": began,
                "ended_at": began + 5 * MINUTE,
            }
            rows.append(place | (IDLE if idle else WORKING))
    return rows


def once(node: str) -> dict[str, list[Row]]:
    """Return what is told once: what is owned, and who holds it."""
    gpus = [f"GPU-{node}-{index}" for index in range(2)]
    owned = [{"node": node, "gpu_uuid": gpu, "owned_from": MONDAY, "sku": "H100-80GB"} for gpu in gpus]
    until = {"GPU-n1-0": 3, "GPU-n1-1": 4, "GPU-n2-0": 4}
    held = [
        {"run_id": f"slurm/alpha/{number}", "node": node, "gpu_uuid": gpu, "started_at": MONDAY, "scheduler": "slurm"}
        | {
            "ended_at": MONDAY + until[gpu] * HOUR,
            "name": f"train-{number}",
            "exit_status": "failed" if number == 1 else None,
        }
        for number, gpu in enumerate(gpus, 1 if node == "n1" else 3)
        if gpu in until
    ]
    return {"ownership": owned, "allocations": held}


def main(checkout: str, out: str) -> None:
    """Write the store, compressed, and print what is in it."""
    sys.path.insert(0, checkout)
    moved = (Path(checkout) / "collector/decoding/batch.py").exists()
    names = ("agent.wire.envelope", "collector.decoding.batch" if moved else "collector.decode", "collector.landing")
    envelope, decoding, landing = map(import_module, names)
    database, analysis, config = map(
        import_module, ("collector.store.database", "analyzer.analysis", "analyzer.config")
    )
    with tempfile.TemporaryDirectory() as folder:
        path, prices = Path(folder) / "store.duckdb", Path(folder) / "prices.toml"
        prices.write_text(PRICES)
        with database.Store.open(path) as store:
            with store.session() as session:
                land = landing.Landing(session)
                for node, sequence, tables in batches():
                    sent = MONDAY + sequence * HOUR
                    stream = STREAMS[node]
                    body = envelope.encode(agent=node, stream=stream, sequence=sequence, sent_at=sent, tables=tables)
                    land.land([decoding.decode(body, sent + 1000)])
            analysis.analyze(store, config.Settings(prices=prices), now_us=MONDAY + 5 * HOUR)
            store.checkpoint()
            with store.session() as session:
                for table in ("migrations", "receipts", "gpu_samples", "allocations", "ownership", "ledger", "runs"):
                    print(table, *session.row(f"SELECT count(*) FROM {table}"))
                print("sums", *session.row("SELECT sum(milliseconds), sum(cost_micros) FROM ledger"))
        packed = lzma.compress(path.read_bytes(), preset=9)
        Path(out).write_bytes(packed)
        print(f"{path.stat().st_size} bytes, packed {len(packed)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
