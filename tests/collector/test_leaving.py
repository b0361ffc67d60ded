"""The end of the process, while a thread of it is in the store."""

import os
import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
BUSY = """
import sys, threading, time, duckdb
from collector.http.server import _leave_the_busy
asked = threading.Event()
def work():
    store = duckdb.connect(config={"threads": 1})
    asked.set()
    store.execute("SELECT count(*) FROM range(300000000) a, range(100) b WHERE a.range * b.range % 7 = 3").fetchall()
threading.Thread(target=work, name=sys.argv[1], daemon=True).start()
asked.wait()
time.sleep(0.3)
_leave_the_busy(0)
"""


def test_a_thread_that_is_busy_aborts_nothing() -> None:
    """Python unwinds such threads, which DuckDB answers with SIGABRT: a stop would look like a crash."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", BUSY, "maintenance"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert ended.returncode == 0, ended.stderr
    assert "stopped while busy" in ended.stderr
