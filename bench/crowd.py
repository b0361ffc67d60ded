"""Many agents in one process: each has its turn, whatever became of the others'."""

import asyncio
import os
import time
from collections import Counter
from dataclasses import dataclass, field

import uvloop

from bench.line import Line
from bench.magazine import Magazine

IDLE_SECONDS = 2.0  # after which an agent lets its connection go
RETRY_SECONDS = 1.0


@dataclass(slots=True)
class Crowd:
    """What came of it. A wait is from when a post was due until it was accepted, in seconds."""

    waits: list[float] = field(default_factory=list)
    longest_of_turn: dict[int, float] = field(default_factory=dict)
    answers: Counter[int] = field(default_factory=Counter)
    broken: int = 0
    accepted: int = 0
    sealed_through_fell: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    refusal: str = ""


def speak(port: int, magazine: Magazine, agents: int, turns: int, every_seconds: float) -> Crowd:
    """Let each agent have its turns, one every `every_seconds`, the agents spread over that time."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_speak(port, magazine, agents, turns, every_seconds))


async def _speak(port: int, magazine: Magazine, agents: int, turns: int, every_seconds: float) -> Crowd:
    crowd = Crowd()
    began, cpu = time.monotonic() + 1.0, _cpu_seconds()
    bodies = iter(magazine)  # turn by turn, agent by agent: the order in which they are due
    async with asyncio.TaskGroup() as tasks:
        lines = [Line(port) for _ in range(agents)]
        locks = [asyncio.Lock() for _ in range(agents)]  # an agent sends one batch at a time, oldest first
        sealed = [-1] * agents
        for number in range(agents * turns):
            agent = number % agents
            due = began + number * every_seconds / agents
            if (early := due - time.monotonic()) > 0:
                await asyncio.sleep(early)
            if crowd.refusal:
                break
            tasks.create_task(_post(lines[agent], locks[agent], next(bodies), due, crowd, sealed, number))
    crowd.seconds, crowd.cpu_seconds = time.monotonic() - began, _cpu_seconds() - cpu
    return crowd


async def _post(
    line: Line, lock: asyncio.Lock, body: bytes, due: float, crowd: Crowd, sealed: list[int], number: int
) -> None:
    turn, agent = divmod(number, len(sealed))
    async with lock:
        while not crowd.refusal:
            try:
                reply = await line.post(body)
            except OSError:
                crowd.broken += 1
                await asyncio.sleep(RETRY_SECONDS)
                continue
            crowd.answers[reply.status] += 1
            if reply.status == 200:
                break
            if reply.status not in (429, 503):
                crowd.refusal = f"{reply.status} {reply.text[:300]!r}"
            await asyncio.sleep(reply.retry_after)
        else:
            return
        waited = time.monotonic() - due
        crowd.waits.append(waited)
        crowd.longest_of_turn[turn] = max(waited, crowd.longest_of_turn.get(turn, 0.0))
        crowd.accepted += 1
        crowd.sealed_through_fell += reply.sealed_through < sealed[agent]
        sealed[agent] = reply.sealed_through
        line.close_when_idle(IDLE_SECONDS)


def _cpu_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system
