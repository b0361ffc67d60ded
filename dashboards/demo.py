"""The demo: a fleet that does not exist, through the real pipeline, to the report and the page."""

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from agent import child
from analyzer.analysis import analyze
from analyzer.interfaces.questions.registry import answer
from analyzer.ledger.believed import believing
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings
from collector.config import SETTINGS_NAME, CollectorConfig
from collector.errors import ConfigError, StoreError
from collector.store.database import Store
from dashboards.server.app import ServerConfig, create_server

_PATIENCE_SECONDS = 2.0


class Stage:
    """One stage with its own bar, shown only where it lasts and stderr is a terminal; `seconds` gets its length."""

    def __init__(self, title: str, seconds: dict[str, float]) -> None:
        self._title, self._seconds = title, seconds
        self._began = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> "Stage":
        self._began = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._seconds[self._title] = time.monotonic() - self._began
        if self._bar is not None:
            self._bar.stop()

    def reached(self, done: int, of: int) -> None:
        """Move the bar; the first move after two seconds shows it."""
        if self._bar is None and time.monotonic() - self._began > _PATIENCE_SECONDS and sys.stderr.isatty():
            columns = (TextColumn("{task.description:<12}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._title, total=of)
            self._bar.start()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=of)


_FILES = {
    SETTINGS_NAME: """# The demo fleet: every figure is invented.
[analyzer]
cluster = "alpha"
timezone = "Europe/Berlin"
prices = "prices.toml"
teams = "teams.toml"
""",
    "prices.toml": """# What the demo fleet pays, by an imaginary contract.
currency = "USD"

[[price]]
sku = "H100-80GB"
purchase_option = "reserved"
usd_per_gpu_hour = 2.60
from = 2026-01-01
source = "imaginary contract"
as_of = 2026-11-01

[[price]]
sku = "A100-80GB"
purchase_option = "owned"
usd_per_gpu_hour = 1.10
from = 2026-01-01
source = "imaginary books: depreciation, power, hall"
as_of = 2026-11-01

[[energy]]
pue = 1.30
carbon = "DEU"
from = 2026-01-01
source = "imaginary hall"
as_of = 2026-11-01
""",
    "teams.toml": "# Whose runs they are, by Slurm account.\n"
    + "".join(
        f'\n[[rule]]\nteam = "team-{name}"\naccount = "{name}"\nfrom = 2026-01-01\n'
        for name in ("nlp", "vision", "search", "speech")
    ),
}


def write_settings(directory: Path) -> None:
    """Write settings, prices and teams into a directory; what is there already stays."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        path = directory / name
        if not path.exists():
            path.write_text(text, encoding="utf-8")


_STARTING_SECONDS = 20.0
_STOPPING_SECONDS = 40.0  # a page that is being made, and what is on its way, may take half a minute
_ERROR_CHARACTERS = 2000
_AGES = 100_000  # days: the demo's week is always the same, and the upkeep must not take it for old


@dataclass(frozen=True, slots=True)
class DemoConfig:
    """What the demo is asked for. `store` None takes a temporary directory, which is removed at the end."""

    once: bool = False
    seed: int = 1
    port: int = 8470
    store: Path | None = None
    small: bool = False
    width: int = 80
    ascii: bool = False


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo has to show: the report, the seconds that each stage took, and where the page is."""

    report: str
    seconds: dict[str, float]
    gpu_rows: int
    url: str
    store: Path


@contextmanager
def demo(config: DemoConfig) -> Iterator[DemoResult]:
    """Build the demo site, yield what there is to show while its page answers, and take it down again.

    Raises:
        StoreError: the store is in use or the simulated fleet could not deliver.
        ConfigError: the port is taken.
    """
    with ExitStack() as stack:
        path = _place(config, stack)
        settings = Settings.beside(path)
        store = stack.enter_context(Store.open(path))
        collector = CollectorConfig(
            store=path, listen=f"127.0.0.1:{config.port}", raw_days=_AGES, minute_days=_AGES, hour_days=_AGES
        )
        app = create_server(ServerConfig(collector, settings, analyze_seconds=None, is_simulated=True), store)
        url = stack.enter_context(_served(app, collector))
        seconds: dict[str, float] = {}
        with Stage("telemetry", seconds) as stage:
            _simulate(url, config, stage.reached)
        with Stage("analysis", seconds) as stage:
            analyze(store, settings, now_us=time.time_ns() // 1000, progress=stage.reached)
        app.state.job.once()  # nothing is left to do; pages say that the server is up to date
        with Stage("report", seconds), believing(store) as session:
            request = Request("week", width=config.width, ascii=config.ascii)
            text = answer(Reader(session, settings), request)
            (rows,) = session.row("SELECT count(*) FROM gpu_samples")
        yield DemoResult(text, seconds, rows, url, path)


def _place(config: DemoConfig, stack: ExitStack) -> Path:
    if config.store is None:
        # A page that is still being made when the server ends may write beside the store while it is removed.
        place = tempfile.TemporaryDirectory(prefix="gpuledger-demo-", ignore_cleanup_errors=True)
        directory = Path(stack.enter_context(place))
        path = directory / "demo.duckdb"
    else:
        path = config.store
    write_settings(path.parent)
    return path


@contextmanager
def _served(app: FastAPI, config: CollectorConfig) -> Iterator[str]:
    """Serve the application in a thread, and yield its address."""
    host, port = config.address
    settings = uvicorn.Config(
        app, host=host, port=port, access_log=False, log_level="error", ws="none", server_header=False
    )
    try:
        listening = socket.create_server((host, port))  # uvicorn's own way leaves the socket open where it fails
    except OSError as error:
        raise ConfigError(
            f"port {port} cannot be had ({error.strerror}): say --port N, or 0 for any free one"
        ) from error
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="server", daemon=True)
    thread.start()
    try:
        _wait_for(lambda: server.started, thread)
        yield f"http://{host}:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(_STOPPING_SECONDS)
        listening.close()


def _wait_for(started: Callable[[], bool], thread: threading.Thread) -> None:
    deadline = time.monotonic() + _STARTING_SECONDS
    while not started():
        if not thread.is_alive() or time.monotonic() > deadline:
            raise StoreError("the demo's server did not start; gpuledger serve says why")
        time.sleep(0.02)


def _simulate(url: str, config: DemoConfig, reached: Callable[[int, int], None]) -> None:
    """Send the simulated fleet from a process of its own, as agents would."""
    words = child.command("simulator", "--url", url, "--seed", str(config.seed), "--progress")
    words += ["--site", "small"] if config.small else ["--every", "60", "--last-day-every", "10"]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
        subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
            words, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            for line in process.stdout or ():
                told = json.loads(line)
                reached(int(told["done"]), int(told["of"]))
        except BaseException:
            process.terminate()
            raise
        if process.wait() != 0:
            errors.seek(0)
            said = errors.read(_ERROR_CHARACTERS).strip() or f"exit code {process.returncode}"
            raise StoreError(f"the simulated fleet could not be sent: {said}")
