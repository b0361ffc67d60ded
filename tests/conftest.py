"""What every test may use: golden files, a calm Hypothesis, nothing left behind, and in CI no skips."""

import gc
import logging
import os
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from agent.log_format import ToStderr
from tests.by_file import ByFile, unit
from tests.leftovers import Leftovers
from tests.watchdog import Watchdog

# The agent's tests run on 3.10 too, where nothing else does.
pytest_plugins = ["tests.browser", "tests.fleet.servers", "tests.new_stores"] if sys.version_info >= (3, 11) else []

GOLDEN = Path(__file__).parent / "golden"
_WATCHDOG = pytest.StashKey[Watchdog]()
_FAILED = pytest.StashKey[bool]()
# For workers: with it DuckDB plans and runs small statements, most of what they do, in four fifths of the time.
ALLOCATOR = "*-linux-gnu/libtcmalloc_minimal.so.4"
# Files of these begin first: one that takes minutes must not be the last, with the other workers idle.
LONG = (
    "dashboards",
    "collector/schedulers/slurm",
    "analyzer/ledger",
    "collector/tenancy",
    "collector/access",
    "operations",
    "collector/lake",
    "fleet",
    "collector",
    "bench",
    "analyzer/interfaces",
)
# Files of these wait far more than they compute, and begin among all others: one after the other, all workers waited.
WAITING = ("dashboards/grafana", "collector/prometheus", "agent/gpu", "agent/top")

# Tests share their cores with other work: a slow example is no finding. Of examples that are drawn the suite has fewer,
# and others in each run; `make soak` draws a hundred for the same tests.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=30)
settings.register_profile("soak", settings.get_profile("house"), max_examples=100)
settings.load_profile("house")


@pytest.fixture(scope="session", autouse=True)
def _nothing_outside_the_test(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Agents of tests leave no file and no socket where an installed one has them; a test sets its own.

    Their sysfs has no cgroups: a job of the Slurm that another test runs held a GPU of the fake driver, now and then.
    What is temporary, that of commands and browsers too, lies in the run's folder, and goes with it.
    """
    os.environ["TMPDIR"] = str(tmp_path_factory.mktemp("tmp"))
    tempfile.tempdir = None
    for setting in ("STATE", "KEY_FILE", "PROGRESS", "CONTROL"):
        os.environ.setdefault(f"GPULEDGER_AGENT_{setting}", "")
    sysfs = tmp_path_factory.mktemp("sys")
    for each in Path("/sys").iterdir():
        if each.name != "fs":
            (sysfs / each.name).symlink_to(each)
    os.environ.setdefault("GPULEDGER_AGENT_SYS", str(sysfs))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """A daemon's command that a test calls in this process sets up its log: for that test alone.

    Its handler writes to a captured stderr that is gone, and its hooks would hide what fails in another test's thread.
    """
    before, level = (sys.excepthook, threading.excepthook), logging.getLogger().level
    try:
        return (yield)
    finally:
        psutil.PROCFS_PATH = "/proc"  # an agent has one procfs, and psutil one place to name it; a test names its own
        if (sys.excepthook, threading.excepthook) != before:
            sys.excepthook, threading.excepthook = before
            root = logging.getLogger()
            root.setLevel(level)
            root.handlers = [handler for handler in root.handlers if not isinstance(handler, ToStderr)]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our two options."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden/ with what comes out")
    parser.addoption("--order", type=int, metavar="SEED", help="run the files in the random order of this seed")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Look for what tests leave behind; give the run a folder, and a watchdog that ends all of it when pytest is gone.

    Carets in tracebacks are off in the workers and in what they start: up to 3.11.7 a thread that formats a traceback
    while another parses raises a SystemError (CPython gh-106905).
    """
    config.pluginmanager.register(Leftovers())
    if hasattr(config, "workerinput"):
        os.environ.pop("LD_PRELOAD", None)  # what a worker starts is as it is elsewhere
        return
    if getattr(config.option, "tx", None) and (allocator := next(iter(Path("/usr/lib").glob(ALLOCATOR)), None)):
        os.environ.setdefault("LD_PRELOAD", str(allocator))
    os.environ.setdefault("PYTHONNODEBUGRANGES", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's, which comes with pyarrow, begin by spinning
    watchdog = Watchdog()
    config.stash[_WATCHDOG] = watchdog
    if config.option.basetemp is None:
        config.option.basetemp = watchdog.folder / "t"


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Let the watchdog end what is left; the folder of a run that failed stays until the next run."""
    if watchdog := config.stash.get(_WATCHDOG, None):
        watchdog.close(keep=config.stash.get(_FAILED, False))


def pytest_xdist_auto_num_workers() -> int:
    """Return for `-n auto` two workers more than there are cores: many tests wait for processes of their own."""
    return len(os.sched_getaffinity(0)) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Have the tests dealt out so."""
    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: the modules come and stay, and each worker collects them all.

    While tests run it is looked for more seldom than by default, which took 3% of the processor.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes long, or with what the seed says; within a file nothing changes its place."""
    seed: int | None = config.getoption("--order")
    if seed is not None:
        places = {path: random.Random(f"{seed} {path}").random() for path in {item.path for item in items}}
        items.sort(key=lambda item: places[item.path])
        return
    here = Path(__file__).parent
    ranks = {here / name: rank for rank, name in enumerate((*LONG, *WAITING))}
    items.sort(key=lambda item: ranks.get(item.path.parent, len(ranks)))
    units = list(dict.fromkeys(unit(item.nodeid) for item in items))
    waiting = [each for each in units if each.startswith(tuple(f"tests/{name}/" for name in WAITING))]
    others = [each for each in units if each not in waiting]
    spread = {each: (number + 0.5) / len(some) for some in (waiting, others) for number, each in enumerate(some)}
    items.sort(key=lambda item: spread[unit(item.nodeid)])


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that compares text with tests/golden/NAME, byte for byte."""
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"there is no golden file {name}; make it with pytest --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """In CI (GPULEDGER_NO_SKIP=1) a skipped test fails the session: what is not run there is run nowhere."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if _skipped(reporter) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    session.config.stash[_FAILED] = session.exitstatus == pytest.ExitCode.TESTS_FAILED
    yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why the session fails, above pytest's closing line."""
    if count := _skipped(terminalreporter):
        terminalreporter.write_line(f"GPULEDGER_NO_SKIP: {count} skipped, so the session fails", red=True)


def _skipped(reporter: pytest.TerminalReporter | None) -> int:
    """Return how many tests were skipped where none may be, else 0; workers have no reporter.

    What apt cannot bring in a version that will do is optional, and its tests say so.
    """
    if reporter is None or os.environ.get("GPULEDGER_NO_SKIP") != "1":
        return 0
    return sum("optional: " not in str(report.longrepr) for report in reporter.stats.get("skipped", []))
