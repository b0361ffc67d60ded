"""One slice of a fuzz run, in a process of its own: python bench/fuzz/slice.py KIND SEED COUNT FOLDER.

It prints one line of JSON: how the cases ended, what was stored, what was wrong. A process that ends without that line,
or not at all, was killed by its input; KIND and SEED make the same slice again.
"""

import json
import random
import resource
import statistics
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.fuzz.bodies import Bodies
from bench.fuzz.checks import rubbish
from bench.fuzz.files import Files
from bench.fuzz.writes import Writes
from collector.config import CollectorConfig
from collector.errors import BatchError, CollectorError, FileRefusedError
from collector.importing.importer import import_file
from collector.lake.sealing import seal
from collector.pipeline.batch_commit import BatchCommit
from collector.pipeline.decoding.batch import Batch, decode
from collector.pipeline.writer import Writer
from collector.prometheus.labels import Clusters
from collector.prometheus.receiver import Limits, Receiver
from collector.prometheus.request import unpacked
from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.seal_mark import Mark

GROUP = 400
PATIENCE_SECONDS = 60.0
UNPACKED_BYTES = 64 * 2**20
TIMED = 200  # good bodies, before and after
MOST_FAULTS = 20


@dataclass(slots=True)
class Outcome:
    """What became of a slice. `faults` are exceptions that no caller expects, with the case; `rubbish` was stored."""

    kind: str
    seed: int
    cases: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    stored_rows: int = 0
    slowest_seconds: float = 0.0
    faults: list[str] = field(default_factory=list)
    rubbish: list[str] = field(default_factory=list)
    rss_bytes_max: int = 0
    good_microseconds_before: float = 0.0
    good_microseconds_after: float = 0.0

    def ended(self, how: str, began: float) -> None:
        """Note the end of a case."""
        self.cases += 1
        self.ends[how] += 1
        self.slowest_seconds = max(self.slowest_seconds, time.perf_counter() - began)

    def fault(self, layer: str, case: object) -> None:
        """Note an exception that nobody expects; to be called while it is handled."""
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(f"{layer}: {traceback.format_exc(limit=-4)} case {case!r:.2000}")


def ingest(store: Store, mark: Mark, seed: int, count: int, folder: Path) -> Outcome:  # noqa: ARG001 - as its siblings
    """Decode hostile batches and land those that pass."""
    dice, now = random.Random(seed), time.time_ns() // 1000
    outcome, bodies, waiting = Outcome("ingest", seed), Bodies(f"fuzz-{seed}", now, dice), []
    outcome.good_microseconds_before = _good(bodies)
    with BatchCommit(store, mark) as batch_commit:
        for _ in range(count):
            layer, body = bodies.next()
            began = time.perf_counter()
            try:
                waiting.append(decode(body, now))
                outcome.ended(f"{layer}: taken", began)
            except BatchError as refusal:
                outcome.ended(f"{layer}: {refusal.status}", began)
            except Exception:  # noqa: BLE001 - that is what is looked for
                outcome.ended(f"{layer}: fault", began)
                outcome.fault(layer, body.hex())
            if len(waiting) >= GROUP:
                _land(batch_commit, waiting, outcome)
        _land(batch_commit, waiting, outcome)
    outcome.good_microseconds_after = _good(bodies)
    return outcome


def _land(batch_commit: BatchCommit, waiting: list[Batch], outcome: Outcome) -> None:
    try:
        batch_commit.land(waiting)
    except CollectorError:
        outcome.fault("landing", [batch.body.hex()[:100] for batch in waiting[:3]])
    waiting.clear()


def _good(bodies: Bodies) -> float:
    """Return how long a good body takes to be decoded, the median in microseconds."""
    taken = []
    for body in [bodies.good() for _ in range(TIMED)]:
        began = time.perf_counter()
        decode(body, time.time_ns() // 1000)
        taken.append((time.perf_counter() - began) * 1e6)
    return round(statistics.median(taken), 1)


def remote_write(store: Store, mark: Mark, seed: int, count: int, folder: Path) -> Outcome:  # noqa: ARG001
    """Let the receiver read hostile requests."""
    outcome, requests = Outcome("remote_write", seed), Writes(time.time_ns() // 1000, random.Random(seed))
    writer = Writer(store, CollectorConfig(gather_seconds=0.0))
    writer.mark = mark
    receiver = Receiver(writer, Limits(wait_seconds=0.01), Clusters())
    writer.start()
    receiver.start()
    held: list[tuple[str, bytes, Future[Any]]] = []
    for number in range(count):
        layer, body, proto = requests.next()
        began = time.perf_counter()
        try:
            held.append((layer, body, receiver.take(unpacked(body, UNPACKED_BYTES), proto)))
        except BatchError as refusal:
            outcome.ended(f"{layer}: {refusal.status}", began)
        except Exception:  # noqa: BLE001
            outcome.ended(f"{layer}: fault", began)
            outcome.fault(layer, body.hex())
        if len(held) >= GROUP or number == count - 1:
            _answered(held, outcome)
    receiver.stop()
    writer.close()
    return outcome


def _answered(held: list[tuple[str, bytes, "Future[Any]"]], outcome: Outcome) -> None:
    began = time.perf_counter()
    wait([answer for _, _, answer in held], PATIENCE_SECONDS)
    for layer, body, answer in held:
        try:
            refused = answer.result(timeout=0).refused
            outcome.ended(f"{layer}: {'partly taken' if refused else 'taken'}", began)
        except BatchError as refusal:
            outcome.ended(f"{layer}: {refusal.status}", began)
        except Exception:  # noqa: BLE001
            outcome.ended(f"{layer}: fault", began)
            outcome.fault(layer, body.hex())
    held.clear()


def files(store: Store, mark: Mark, seed: int, count: int, folder: Path) -> Outcome:  # noqa: ARG001
    """Import hostile files."""
    outcome, made = Outcome("files", seed), Files(folder, time.time_ns() // 1000, random.Random(seed))
    for _ in range(count):
        layer, path = made.next()
        began = time.perf_counter()
        try:
            found = import_file(store, path)
            outcome.ended(f"{layer}: {'partly taken' if found.rejected else 'taken'}", began)
        except FileRefusedError:
            outcome.ended(f"{layer}: refused", began)
        except Exception:  # noqa: BLE001
            outcome.ended(f"{layer}: fault", began)
            outcome.fault(layer, path.read_bytes().hex())
        path.unlink()
    return outcome


KINDS: dict[str, Callable[[Store, Mark, int, int, Path], Outcome]] = {
    "ingest": ingest,
    "remote_write": remote_write,
    "files": files,
}


def main() -> int:
    """Do one slice and print what became of it."""
    kind, seed, count, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    outcome = _stored(kind, seed, count, folder)
    outcome.rss_bytes_max = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({name: getattr(outcome, name) for name in Outcome.__slots__}))
    return 0


def _stored(kind: str, seed: int, count: int, folder: Path) -> Outcome:
    """Do a slice of what is kept, and hold what was stored to the contract."""
    path = folder / "store.duckdb"
    # A commit of the lake a file would take most of the time, and what is imported takes the same way without one.
    with Store.open(None) if kind == "files" else Store.open(path, lake=default_lake(path)) as store:
        mark = Mark.of(store)
        outcome = KINDS[kind](store, mark, seed, count, folder)
        if store.lake is not None and (broken := seal(store, mark).broken):
            outcome.rubbish.append(f"{broken} batches were taken and could not be read again")
        with store.session() as session:
            outcome.rubbish += rubbish(session, time.time_ns() // 1000)
            (outcome.stored_rows,) = session.row("SELECT coalesce(sum(row_count), 0)::BIGINT FROM receipts")
    return outcome


if __name__ == "__main__":
    sys.exit(main())
