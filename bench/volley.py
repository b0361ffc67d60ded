"""Connections that send what a magazine holds, each its next body when the last was answered and the next is due."""

import asyncio
import resource
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import uvloop

from bench.line import Line

BUSY = (429, 503)


@dataclass(slots=True)
class Volley:
    """What came of it. A wait is from when a body was due until it was accepted, in seconds."""

    waits: list[float] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of the generator
    ran_out: bool = False  # of bodies, before the time was over
    refusal: str = ""

    @property
    def accepted(self) -> int:
        """Bodies that were accepted."""
        return len(self.waits)

    @property
    def rate(self) -> float:
        """Accepted bodies a second."""
        return self.accepted / self.seconds


def fire(port: int, bodies: Iterator[bytes], seconds: float, connections: int, pace: float | None = None) -> Volley:
    """Send for so long, then wait for what is on its way.

    `pace` is how many bodies are due in a second, whatever became of those before; without one a body is due as soon
    as a connection has room for it.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_fire(port, bodies, seconds, connections, pace))


async def _fire(port: int, bodies: Iterator[bytes], seconds: float, connections: int, pace: float | None) -> Volley:
    volley = Volley()
    began, cpu = time.monotonic(), _cpu_seconds()
    until = began + seconds
    due_at = (time.monotonic() if pace is None else began + turn / pace for turn in count())

    async def one() -> None:
        line = Line(port)
        while (due := next(due_at)) < until and not volley.refusal:
            body = next(bodies, None)
            if body is None:
                volley.ran_out = True
                break
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if await _accepted(line, body, volley):
                volley.waits.append(time.monotonic() - due)
        line.close()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(connections):
            tasks.create_task(one())
    volley.seconds, volley.cpu_seconds = time.monotonic() - began, _cpu_seconds() - cpu
    return volley


async def _accepted(line: Line, body: bytes, volley: Volley) -> bool:
    """Send until it is taken; anything but "accepted" and "come later" ends the volley."""
    while True:
        reply = await line.post(body)
        volley.answers[reply.status] += 1
        if reply.status not in BUSY:
            break
        await asyncio.sleep(reply.retry_after)
    if reply.status != 200:
        volley.refusal = f"{reply.status} {reply.text[:300]!r}"
    return reply.status == 200


def _cpu_seconds() -> float:
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime
