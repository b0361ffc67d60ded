"""Ask on a thread of its own, and wait only so long: a call that hangs must not stop who asked.

A hung driver call, a dead NFS server and a stuck socket have this in common: nothing ends them from outside. So the
thread that asked is left with its question, nobody else waits for it, and no second question is put behind the first.
"""

import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from agent.errors import SourceHungError

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Late(Generic[T]):
    """An answer that nobody waited for any more, and when it came, on the clock of the watchdog thread."""

    value: T
    came_at: int


@dataclass(frozen=True, slots=True)
class _Answer(Generic[T]):
    number: int  # of its question
    value: T | None
    error: BaseException | None
    came_at: int


class WatchdogThread(Generic[T]):
    """Puts one question again and again: begin() asks, answer() waits.

    `late` is what begin() found to have come too late for the question before; `lost_answer` is whether there was
    such an answer at all, a failure perhaps. `hung` counts the questions that got no answer in time.
    """

    def __init__(self, name: str, ask: Callable[[], T], now: Callable[[], int] = lambda: 0) -> None:
        self.late: Late[T] | None = None
        self.lost_answer = False
        self.hung = 0
        self._name = name
        self._ask = ask
        self._now = now
        self._questions: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[_Answer[T]] = queue.SimpleQueue()
        self._held: _Answer[T] | None = None  # an answer that came and is not yet handed out
        self._asked = 0  # number of the newest question
        self._answered = 0  # number of the newest question whose answer came
        self._given_up = 0  # questions up to this number are no longer waited for
        self._thread: threading.Thread | None = None

    @property
    def has_late(self) -> bool:
        """Whether an answer came that nobody waits for any more; begin() takes it."""
        return self._given_up >= self._asked > self._answered and not self._answers.empty()

    def begin(self) -> None:
        """Put the question; nothing happens where an older one is still without an answer."""
        self._take_late()
        if self._answered < self._asked:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._attend, name=f"ask-{self._name}", daemon=True)
            self._thread.start()
        self._asked += 1
        self._questions.put(self._asked)

    def ready(self, timeout_seconds: float) -> bool:
        """Return whether answer() would return or raise at once, after waiting for at most so long."""
        if self._held is None and self._given_up < self._asked:
            with contextlib.suppress(queue.Empty):
                self._held = self._answers.get(timeout=max(0.0, timeout_seconds))
        return self._held is not None or self._given_up >= self._asked

    def answer(self, timeout_seconds: float) -> T:
        """Return the answer to the question that was begun; whatever the asking raised is raised here.

        Raises:
            SourceHungError: none came in time; at once where an older question has none yet.
        """
        if self._given_up >= self._asked:
            raise SourceHungError(f"{self._name} is still not responding; skipped until it does")
        if not self.ready(timeout_seconds) or self._held is None:
            self._given_up = self._asked
            self.hung += 1
            raise SourceHungError(f"{self._name} is not responding; skipped until it does")
        held, self._held = self._held, None
        self._answered = held.number
        if held.error is not None:
            raise held.error
        return cast("T", held.value)  # without an error it is what `ask` returned

    def close(self) -> None:
        """Let the thread end, if it is not hung; a hung one ends with the process."""
        if self._thread is not None:
            self._questions.put(None)
            self._thread = None

    def _take_late(self) -> None:
        """Take the answer to a question that was given up; only then may the next one be put."""
        self.late, self.lost_answer = None, False
        while self._answered < self._asked:
            try:
                came = self._held or self._answers.get_nowait()
            except queue.Empty:
                return
            self._held, self._answered, self.lost_answer = None, came.number, True
            if came.error is None:
                self.late = Late(cast("T", came.value), came.came_at)
            _LOG.info("%s is responding again", self._name)

    def _attend(self) -> None:
        questions, answers = self._questions, self._answers
        while (number := questions.get()) is not None:
            value: T | None = None
            failed: BaseException | None = None
            try:
                value = self._ask()
            except BaseException as error:  # noqa: BLE001  raised again where the answer is waited for
                failed = error
            answers.put(_Answer(number, value, failed, self._now()))
