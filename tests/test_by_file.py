"""A worker that dies is one failure: the test it died in is told once, and all others run, each once."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parent.parent
CONFTEST = """
from tests.by_file import ByFile

def pytest_xdist_make_scheduler(config, log):
    return ByFile(config, log)
"""
FILE = """
import os
import pytest

@pytest.mark.parametrize("number", range({tests}))
def test_it(number):
    with open({ran!r}, "a") as ran:
        ran.write(f"{name}-{{number}}\\n")
    if number in {dies}:
        os._exit(3)
"""


def test_all_others_run_once(tmp_path: Path) -> None:
    """As xdist has it, the next worker died of the same test, and a run waited for ever for a file of one test."""
    tests, dies = [1, 5, 4, 1, 1], {0: [0], 1: [3], 2: [0, 2, 3], 4: [0]}  # in each file, by its number
    ran = tmp_path / "ran"
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, count in enumerate(tests):
        text = FILE.format(tests=count, ran=str(ran), name=name, dies=dies.get(name, []))
        (tmp_path / f"test_{name}.py").write_text(text)
    dead = sum(len(each) for each in dies.values())
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
    done = subprocess.run(
        [*command, "--max-worker-restart=8", "-p", "xdist.plugin", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # nine workers load all
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert f"{dead} failed, {sum(tests) - dead} passed" in done.stdout, done.stdout
    assert Counter(ran.read_text().split()) == {
        f"{name}-{at}": 1 for name, each in enumerate(tests) for at in range(each)
    }
