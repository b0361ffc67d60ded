"""Processes that decode may die in any way: no request waits for ever, and nobody pays for another's batch."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest

from collector.errors import BatchError
from collector.pipeline.decoding import decoders
from collector.pipeline.decoding.batch import Batch, decode
from collector.pipeline.decoding.decoder import Question
from collector.pipeline.decoding.decoders import Decoders, command
from tests.collector.batches import NOW, body, gpu_rows
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
REAL = command(2**26, 10**6)
# A decoder that is ended by a body of 77 rows, as a bug in a library would end it.
FRAIL = (
    sys.executable,
    "-c",
    "import os\n"
    "from collector.pipeline.decoding import decoder\n"
    "ours = decoder.decode\n"
    "def frail(body, *rest):\n"
    "    batch = ours(body, *rest)\n"
    "    if batch.row_count == 77: os.abort()\n"
    "    return batch\n"
    "decoder.decode = frail\n"
    "import sys; sys.argv[1:] = ['67108864', '1000000']\n"
    "decoder.main()\n",
)
POISON = body(0, {"gpu_samples": gpu_rows(77)})


class Site:
    """Decoders, and how many processes have ended."""

    def __init__(self, start: tuple[str, ...] = REAL, count: int = 1) -> None:
        self.ended = 0
        self.decoders = Decoders(count, start, self._count)

    def _count(self) -> None:
        self.ended += 1

    async def said(self, content: bytes) -> Batch | BatchError | None:
        """Return what becomes of a body."""
        try:
            return await self.decoders.decoded(Question(content, NOW))
        except BatchError as error:
            return error


def _tried(site: Site, what: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def tried() -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await what()
        finally:
            await site.decoders.stop()

    asyncio.run(tried())


def _decoders_of(pid: int) -> list[psutil.Process]:
    return [
        child for child in psutil.Process(pid).children() if "collector.pipeline.decoding.decoder" in _command(child)
    ]


def _command(child: psutil.Process) -> list[str]:
    """Return what was started; nothing of one that has ended meanwhile, whoever started it."""
    try:
        return child.cmdline()
    except psutil.Error:
        return []


def test_many_bodies_come_back_each_to_who_asked() -> None:
    """Groups are taken apart again in the right order, with several processes too."""
    site = Site(count=2)
    bodies = [body(sequence, {"gpu_samples": gpu_rows(sequence % 7 + 1)}) for sequence in range(300)]

    async def what() -> None:
        found = await asyncio.gather(*map(site.said, bodies))
        assert found == [decode(one, NOW).without_tables() for one in bodies]
        assert len(_decoders_of(os.getpid())) == 2

    _tried(site, what)
    assert _decoders_of(os.getpid()) == []


def test_nobody_pays_for_the_batch_that_ends_a_process() -> None:
    """It came in one group with twenty others, which are decoded all the same."""
    site = Site(FRAIL)
    good = [body(sequence) for sequence in range(1, 21)]

    async def what() -> None:
        found = await asyncio.gather(*map(site.said, [*good[:10], POISON, *good[10:]]))
        blamed = found.pop(10)
        assert found == [decode(one, NOW).without_tables() for one in good]
        assert isinstance(blamed, BatchError)
        assert (blamed.status, blamed.reason) == (503, "decoder")
        again = await site.said(POISON)
        assert isinstance(again, BatchError)
        assert (again.status, again.reason) == (400, "crash")
        assert await site.said(good[0]) is not None

    _tried(site, what)
    assert 2 <= site.ended <= 3


def test_a_process_that_is_killed_is_replaced() -> None:
    """The out-of-memory killer takes whom it likes; the next batch finds another process."""
    site = Site()

    async def what() -> None:
        assert await site.said(body()) is not None
        (process,) = _decoders_of(os.getpid())
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_SECONDS)
        first = await site.said(body(2))
        assert isinstance(first, BatchError)
        assert first.status == 503
        assert await site.said(body(2)) == decode(body(2), NOW).without_tables()

    _tried(site, what)
    assert site.ended == 1


def test_a_process_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is never answered would hold its place for ever."""
    monkeypatch.setattr(decoders, "PATIENCE_SECONDS", 0.2)
    site = Site((sys.executable, "-c", "import time; print([], flush=True); time.sleep(600)"))

    async def what() -> None:
        silent = await site.said(body())
        assert isinstance(silent, BatchError)
        assert silent.status == 503

    _tried(site, what)


@pytest.mark.parametrize("answer", ["nonsense", "[]", "[1]", "[[1,2]]", "{}", ""])
def test_an_answer_that_is_none_ends_the_process(answer: str) -> None:
    """What it says is not believed because it is a child of ours."""
    greets = "print([], flush=True); sys.stdin.buffer.readline(); sys.stdin.buffer.readline()"
    site = Site((sys.executable, "-c", f"import sys; {greets}; print({answer!r}, flush=True)"))

    async def what() -> None:
        said = await site.said(body())
        assert isinstance(said, BatchError)
        assert said.status == 503

    _tried(site, what)


@pytest.mark.parametrize(
    "start",
    [("/nowhere/python",), (sys.executable, "-c", "raise ImportError"), (sys.executable, "-c", "print('hello')")],
    ids=["no such file", "ends at once", "is another program"],
)
def test_where_none_can_be_started_the_server_decodes_itself(start: tuple[str, ...]) -> None:
    """A host without memory for one more process, or in the middle of an upgrade, still takes batches, slower.

    If the first body were blamed for the end, each would be refused for good at its second try.
    """
    site = Site(start)

    async def what() -> None:
        assert site.decoders.can_help
        assert await site.said(body()) is None
        assert not site.decoders.can_help

    _tried(site, what)


def test_a_process_does_not_outlive_its_server() -> None:
    """Not even where the server was killed, and could say goodbye to nobody."""
    code = (
        "import asyncio\n"
        "from collector.pipeline.decoding.decoders import Decoders, command\n"
        "from collector.pipeline.decoding.decoder import Question\n"
        "from tests.collector.batches import NOW, body\n"
        "async def main():\n"
        "    await Decoders(1, command(2**26, 10**6), print).decoded(Question(body(), NOW))\n"
        "    print('started', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"started\n"
        (process,) = _decoders_of(server.pid)
        server.kill()
    process.wait(PATIENCE_SECONDS)
