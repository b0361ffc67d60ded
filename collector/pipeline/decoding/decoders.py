"""The processes that decode, started when they are first needed: each is asked of a group of bodies at a time.

What comes while a process is busy makes its next group larger, so that the cost of asking is shared where it is felt.
"""

import asyncio
import hashlib
import socket
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent import child
from collector.errors import BatchError
from collector.pipeline.decoding.batch import Batch
from collector.pipeline.decoding.decoder import Question, request_bodies, understood

_GROUP = 16  # bodies in one question
PATIENCE_SECONDS = 30.0  # for the answer to one; a body that may be asked about takes milliseconds
_STARTING_SECONDS = 30.0  # until a process that was started answers at all
_PAUSE_SECONDS = 10.0  # after a process that could not be started
_SOCKET_BYTES = 2**20  # so that a group is written at once
_LONGEST_ANSWER = 2**24  # bytes; a header has at most 64 KiB
_SUSPECTS = 1_000  # bodies remembered that a process ended with


class _EndedError(Exception):
    """The process is gone, or as good as."""


def command(max_bytes: int, max_rows: int) -> tuple[str, ...]:
    """Return what to start, for batches that unpack to so much and no more."""
    return tuple(child.command("collector.pipeline.decoding.decoder", str(max_bytes), str(max_rows)))


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    question: Question
    batch: "asyncio.Future[Batch | None]"


class Decoders:
    """Use it within one event loop; `ended` is called for every process that ended without being told to."""

    def __init__(self, count: int, command: Sequence[str], ended: Callable[[], None]) -> None:
        self._count = count
        self._command = tuple(command)
        self._ended = ended
        self._waiting: asyncio.Queue[_Asked] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._suspects: deque[str] = deque(maxlen=_SUSPECTS)
        self._paused_until = 0.0

    @property
    def can_help(self) -> bool:
        """Whether there is anybody to ask: there may be none by the settings, or none could be started just now."""
        return self._count > 0 and asyncio.get_running_loop().time() >= self._paused_until

    async def decoded(self, question: Question) -> Batch | None:
        """Return the batch of a body, without its tables; None where somebody has to look what is wrong with it.

        Raises:
            BatchError: 503 the process ended with it; 400 it has done so before.
        """
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._serve()) for _ in range(self._count)]
        waiting = _Asked(question, asyncio.get_running_loop().create_future())
        self._waiting.put_nowait(waiting)
        return await waiting.batch

    async def stop(self) -> None:
        """End the processes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _serve(self) -> None:
        """Ask one process, again and again, and start another when it ends."""
        process = _Line(self._command)
        try:
            while True:
                await self._answer(process, await self._group())
        finally:
            process.end()

    async def _group(self) -> list[_Asked]:
        group = [await self._waiting.get()]
        while len(group) < _GROUP and not self._waiting.empty():
            group.append(self._waiting.get_nowait())
        return [one for one in group if not one.batch.done()]  # whoever waited for the others has gone

    async def _answer(self, process: "_Line", group: list[_Asked]) -> None:
        if not group:
            return
        try:
            batches = await process.ask([one.question for one in group])
        except OSError:  # it cannot be started: no memory, no process to be had
            self._paused_until = asyncio.get_running_loop().time() + _PAUSE_SECONDS
            batches = [None] * len(group)
        except _EndedError:
            self._ended()
            if len(group) == 1:
                self._blame(group[0])
            else:
                for one in group:  # one of them may be to blame, and the others need not suffer for it
                    await self._answer(process, [one])
            return
        for one, batch in zip(group, batches, strict=True):
            if not one.batch.done():
                one.batch.set_result(batch)

    def _blame(self, one: _Asked) -> None:
        """Answer for a body with which a process ended: by chance the first time, and no more the second."""
        body_hash = hashlib.sha256(one.question.body).hexdigest()
        if body_hash in self._suspects:
            error = BatchError(400, "crash", "the decoding process crashed twice on this batch; it is refused")
        else:
            self._suspects.append(body_hash)
            error = BatchError(503, "decoder", "the decoding process crashed; send the batch again")
        if not one.batch.done():
            one.batch.set_exception(error)


class _Line:
    """One process at a time, and how it is asked."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: asyncio.StreamReader
        self._questions: asyncio.StreamWriter

    async def ask(self, questions: list[Question]) -> list[Batch | None]:
        """Return what the process says of these bodies, starting one where there is none.

        Raises:
            OSError: it cannot be started, or ends before it was asked of any body.
        """
        if self._process is None:
            await self._start()
            await self._greet()
        return await self._said(questions, PATIENCE_SECONDS)

    async def _greet(self) -> None:
        """Ask of no body: a process that cannot even answer that must be blamed on none."""
        try:
            await self._said([], _STARTING_SECONDS)
        except _EndedError as error:
            raise OSError("the decoding process does not start") from error

    async def _said(self, questions: list[Question], patience_seconds: float) -> list[Batch | None]:
        try:
            async with asyncio.timeout(patience_seconds):
                self._questions.write(request_bodies(questions))
                await self._questions.drain()
                line = await self._answers.readline()
            return understood(line, questions)
        except (OSError, ValueError, TypeError) as error:
            self.end()  # it hung up, is silent, or says nonsense
            raise _EndedError from error

    def end(self) -> None:
        """Let the process go; it has nothing to lose."""
        process, self._process = self._process, None
        if process is not None:
            self._questions.transport.abort()
            process.kill()
            process.wait()

    async def _start(self) -> None:
        """Start a process with a pair of sockets: it ends when ours is closed, in whatever way we end."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                end = theirs.fileno()
                self._process = subprocess.Popen(self._command, stdin=end, stdout=end)  # noqa: S603 - our own module
            except OSError:
                ours.close()
                raise
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        self._answers, self._questions = await asyncio.open_connection(sock=ours, limit=_LONGEST_ANSWER)
