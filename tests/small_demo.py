"""The small demo fleet: its store is made once in a run, by the product's own demo, and each who asks has a copy.

To make one takes three seconds of processor: agents' batches over HTTP, their analysis, a process of its own.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from analyzer.settings.settings import Settings
from collector.backup.manifest import Layout
from collector.config import CollectorConfig
from collector.store.database import Store
from dashboards.demo import DemoConfig, demo
from dashboards.server.app import ServerConfig, create_server
from tests.dashboards.serving import served

_STORE = "demo.duckdb"
_AGES = 100_000  # days, as the demo has them: its week is always the same, and too old for samples to be kept


def small_demo(factory: pytest.TempPathFactory) -> Path:
    """Return the path of a store of one's own; the demo's settings, prices and teams lie beside it."""
    base = factory.getbasetemp()
    made = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "small-demo"
    with made.with_suffix(".lock").open("w") as lock:  # another worker has made it, or does
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _make(made)
    return shutil.copytree(made, factory.mktemp("demo") / "site") / _STORE


def _make(folder: Path) -> None:
    making = folder.with_suffix(".making")  # what remains of a worker that was killed is no fleet
    shutil.rmtree(making, ignore_errors=True)
    with demo(DemoConfig(port=0, store=making / _STORE, small=True)):
        pass
    # How many pages its server had made ahead depends on how fast the machine was.
    shutil.rmtree(Layout(making / _STORE).pages, ignore_errors=True)
    making.rename(folder)


@contextmanager
def shown(path: Path) -> Iterator[httpx.Client]:
    """Yield a client of the server on such a store, which is as gpuledger demo has it."""
    collector = CollectorConfig(store=path, listen="127.0.0.1:0", raw_days=_AGES, minute_days=_AGES, hour_days=_AGES)
    with Store.open(path) as store:
        config = ServerConfig(collector, Settings.beside(path), analyze_seconds=None, is_simulated=True)
        app = create_server(config, store)
        app.state.job.once()  # nothing is left to do; pages say that the server is up to date
        with served(app) as client:
            yield client
