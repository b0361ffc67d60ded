"""What is put right when a store is opened, and above all what is not touched."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from collector.errors import StoreError
from collector.store.database import Store
from collector.store.power import BLOCK, BLOCKS_AT, Safety, copy_of, mend

KILLED = """
import os, sys
from pathlib import Path
from collector.store.database import Store
store = Store.open(Path(sys.argv[1]))
session = store.session()
with session.transaction():
    session.execute("CREATE TABLE t AS SELECT range i FROM range(1000)")
store.checkpoint()
with session.transaction():
    session.execute("INSERT INTO t SELECT range FROM range(?)", [int(sys.argv[2])])
os._exit(0)
"""


def _filled(path: Path, rows: int = 1000) -> None:
    """Make a store as a kill leaves it: no orderly end, so the copy of its metadata is there."""
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", KILLED, str(path), str(rows - 1000)], check=True, cwd=root)


def _count(path: Path) -> int:
    with Store.open(path) as store, store.session() as session:
        return int(session.row("SELECT count(*) FROM t")[0])


def _metadata_blocks(path: Path) -> list[int]:
    with Store.open(path, read_only=True) as store, store.session() as session:
        return [
            n for (n,) in session.rows("SELECT block_id FROM pragma_metadata_info() WHERE total_blocks > free_blocks")
        ]


def _tear(path: Path, block: int) -> None:
    """Write over half of a block, as a checkpoint would that was cut off."""
    with path.open("r+b") as file:
        file.seek(BLOCKS_AT + block * BLOCK + BLOCK // 2)
        file.write(b"\xa5" * (BLOCK // 2))


def test_a_torn_block_is_put_right_and_nothing_is_lost(tmp_path: Path) -> None:
    """Of the file and of its log: what was committed after the checkpoint is there too."""
    path = tmp_path / "store.duckdb"
    _filled(path, rows=3000)
    (block, *_) = _metadata_blocks(path)
    _tear(path, block)
    assert _count(path) == 3000


def test_without_the_copy_a_torn_block_is_the_end(tmp_path: Path) -> None:
    """It is what the copy is for; should DuckDB come to mend itself, this says so."""
    path = tmp_path / "store.duckdb"
    _filled(path)
    (block, *_) = _metadata_blocks(path)
    _tear(path, block)
    copy_of(path).unlink()
    with pytest.raises(StoreError, match="Corrupt database file"):
        _count(path)


def test_a_whole_store_is_left_alone(tmp_path: Path) -> None:
    """Whatever copy lies beside it."""
    path = tmp_path / "store.duckdb"
    _filled(path)
    before = path.read_bytes()
    assert mend(path) == 0
    assert path.read_bytes() == before


def test_the_copy_of_another_header_is_not_used(tmp_path: Path) -> None:
    """A checkpoint has ended since: what the copy holds belongs to nothing any more."""
    path = tmp_path / "store.duckdb"
    _filled(path, rows=2000)
    old = copy_of(path).read_bytes()
    assert _count(path) == 2000  # an orderly end: a checkpoint, and no copy
    assert not copy_of(path).exists()
    copy_of(path).write_bytes(old)
    (block, *_) = _metadata_blocks(path)
    _tear(path, block)
    assert mend(path) == 0


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 5000])
def test_a_damaged_copy_is_none(tmp_path: Path, damage: bytes) -> None:
    """The power may go while it is written."""
    path = tmp_path / "store.duckdb"
    _filled(path)
    copy_of(path).write_bytes(damage)
    assert mend(path) == 0
    assert _count(path) == 1000


def test_a_store_that_another_process_has_is_not_touched(tmp_path: Path) -> None:
    """Its checkpoint may be under way: what looks torn will be whole in a moment."""
    path = tmp_path / "store.duckdb"
    _filled(path)
    code = (
        "import sys; from pathlib import Path; from collector.store.database import Store\n"
        "store = Store.open(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"open\n"
    before = path.read_bytes()
    assert mend(path) == 0
    assert path.read_bytes() == before
    holder.communicate()


def test_a_store_that_this_process_has_keeps_its_lock(tmp_path: Path) -> None:
    """To close a second descriptor of a file gives up every lock that a process has on it (fcntl(2))."""
    path = tmp_path / "store.duckdb"
    with Store.open(path):
        mend(path)
        code = "import sys, duckdb; duckdb.connect(sys.argv[1])"
        other = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
        assert other.returncode != 0
        assert "lock" in other.stderr


@pytest.mark.parametrize("is_taken_again", [False, True])
def test_a_descriptor_that_another_closes_is_looked_for_anew(tmp_path: Path, *, is_taken_again: bool) -> None:
    """A database of the same file, closed a moment ago, may still have it open: the writer's thread ended by that."""
    path, other = tmp_path / "store.duckdb", tmp_path / "other"
    path.write_bytes(bytes(BLOCKS_AT + BLOCK))
    other.write_bytes(b"\1" * BLOCKS_AT)
    first = os.open(path, os.O_RDONLY)
    safety = Safety(path)
    assert safety.settle()
    safety.copy([0])
    assert not safety.settle()  # it reads by the first descriptor, and nothing has changed since
    with path.open("rb"):
        os.close(first)
        taken = os.open(other, os.O_RDONLY) if is_taken_again else None
        assert taken in (first, None)
        assert not safety.settle()  # the header of the store's file is as it was, whatever has its number now
        if taken is not None:
            os.close(taken)
    assert not safety.settle()  # nobody has it open
