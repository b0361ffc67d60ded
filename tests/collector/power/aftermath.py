"""Open what a power cut left, as the collector does at its next start, and compare it with what was answered."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from collector.config import CollectorConfig
from collector.lake.sealing import seal
from collector.pipeline.batch_commit import BatchCommit, Receipt
from collector.pipeline.decoding.batch import decode
from collector.store.database import Store, open_store
from collector.store.seal_mark import Mark
from tests.collector.batches import NOW

Key = tuple[str, int]


def faults(folder: Path, answered: Iterable[Key], sent: Mapping[Key, bytes], rows: int) -> list[str]:
    """Return in sentences what is wrong with the store in a folder; nothing where it is as it was promised."""
    answered = set(answered)
    with open_store(CollectorConfig(store=folder / "store.duckdb")) as store:
        mark = Mark.of(store)
        seal(store, mark)
        found = _compared(store, rows)
        kept = _receipts(store)
        found += [f"{key} was answered and is gone" for key in answered - kept.keys()]
        if not found:
            found += _sent_again(store, mark, sent, set(kept), rows)
    return found


def _sent_again(store: Store, mark: Mark, sent: Mapping[Key, bytes], kept: set[Key], rows: int) -> list[str]:
    """Send everything once more, as agents do with what was not answered: then all is there, and once."""
    with BatchCommit(store, mark) as batch_commit:
        answers = batch_commit.land([decode(content, NOW) for content in sent.values()])
    repeated = {
        key for key, answer in zip(sent, answers, strict=True) if isinstance(answer, Receipt) and answer.repeated
    }
    seal(store, mark)
    found = [f"{key} is there and was taken again" for key in kept - repeated]
    found += [f"{key} was sent again and is gone" for key in sent.keys() - _receipts(store).keys()]
    return found + _compared(store, rows)


def _receipts(store: Store) -> Counter[Key]:
    with store.session() as session:
        return Counter((stream, sequence) for stream, sequence in session.rows("SELECT stream, sequence FROM receipts"))


def _compared(store: Store, rows: int) -> list[str]:
    found = [f"{key} is there {count} times" for key, count in _receipts(store).items() if count > 1]
    for table, each in (("gpu_samples", rows), ("host_samples", 1)):
        with store.session() as session:
            wrong = session.rows(
                f"SELECT coalesce(r.batch, t.batch), coalesce(t.n, 0) FROM receipts r FULL JOIN "
                f"(SELECT batch, count(*) AS n FROM {table} GROUP BY batch) t USING (batch) "
                f"WHERE t.n IS DISTINCT FROM {each} OR r.batch IS NULL"
            )
            found += [f"batch {batch} has {count} rows of {table} where {each} came" for batch, count in wrong]
    return found


def main() -> None:
    """Judge the folders named on standard input, a line of JSON each; answer with a line each."""
    for line in sys.stdin:
        told = json.loads(line)
        sent = {(stream, sequence): bytes.fromhex(content) for stream, sequence, content in told["sent"]}
        answered = [(stream, sequence) for stream, sequence in told["answered"]]
        try:
            found = faults(Path(told["folder"]), answered, sent, told["rows"])
        except Exception as error:  # noqa: BLE001 - a store that does not open is what we look for
            found = [f"{type(error).__name__}: {error}"]
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
