"""From the writer's thread to those who wait: one wake-up for a commit, and nobody is left or brought down."""

import asyncio
import threading
from concurrent.futures import Future

import pytest

from collector.errors import BatchError
from collector.pipeline.batch_commit import Receipt
from collector.pipeline.writer import Answers


def _answered(futures: list["Future[Receipt]"]) -> None:
    for number, future in enumerate(futures):
        if number % 10 == 9:
            future.set_exception(BatchError(409, "conflict", str(number)))
        else:
            future.set_result(Receipt(number, number, repeated=False))


async def _all(count: int) -> tuple[list[Receipt | BaseException], int]:
    answers = Answers()
    futures: list[Future[Receipt]] = [Future() for _ in range(count)]
    waiting = [asyncio.create_task(answers.of(future, 30)) for future in futures]
    await asyncio.sleep(0)
    woken = 0
    loop = asyncio.get_running_loop()
    wake = loop.call_soon_threadsafe

    def counted(*arguments: object) -> object:
        nonlocal woken
        woken += 1
        return wake(*arguments)  # type: ignore[arg-type]

    loop.call_soon_threadsafe = counted  # type: ignore[method-assign, assignment]
    writer = threading.Thread(target=_answered, args=(futures,))
    writer.start()
    writer.join()  # before the loop turns once: as a commit that answers a hundred at a time
    return await asyncio.gather(*waiting, return_exceptions=True), woken


def test_a_commit_wakes_the_loop_once_and_each_hears_its_own_answer() -> None:
    """A wake-up is a write to a pipe: a hundred a commit cost more than the answers."""
    told, woken = asyncio.run(_all(100))
    assert woken == 1
    for number, answer in enumerate(told):
        if number % 10 == 9:
            assert isinstance(answer, BatchError)
            assert str(answer) == str(number)
        else:
            assert answer == Receipt(number, number, repeated=False)


def test_who_has_gone_is_passed_over() -> None:
    """A sender that gave up must not stop the writer from answering the others."""

    async def run() -> Receipt:
        answers = Answers()
        gone: Future[Receipt] = Future()
        here: Future[Receipt] = Future()
        with pytest.raises(TimeoutError):
            await answers.of(gone, 0.01)
        waiting = asyncio.create_task(answers.of(here, 30))
        await asyncio.sleep(0)
        gone.set_result(Receipt(1, 1, repeated=False))
        here.set_result(Receipt(2, 2, repeated=False))
        return await waiting

    assert asyncio.run(run()).sequence == 2


def test_an_answer_after_the_loop_has_ended_harms_nobody() -> None:
    """A stop may leave a commit under way."""
    late: Future[Receipt] = Future()

    async def run() -> None:
        with pytest.raises(TimeoutError):
            await Answers().of(late, 0.01)

    asyncio.run(run())
    late.set_result(Receipt(1, 1, repeated=False))
