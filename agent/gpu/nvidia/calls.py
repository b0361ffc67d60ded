"""Ask the driver, and say what each of its refusals means."""

import time
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import pynvml

from agent.errors import DriverChangedError, SourceLostError

T = TypeVar("T")

# The answer will be the same until the driver or the MIG mode changes, as a rule: it is asked for again rarely.
NEVER = frozenset(
    (
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    )
)
# The device cannot be used until somebody resets it or the host.
_AGAIN_SECONDS = 60.0  # before the first repetition of what is not supported; then twice as long each time
_SELDOM_SECONDS = 3600.0  # between two at most
_LOST = frozenset((pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED, pynvml.NVML_ERROR_GPU_NOT_FOUND))
# Nothing is wrong, there is merely nothing to say. The binding raises NVMLError(0) for an empty list.
_NOTHING_NEW = frozenset((pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_NO_DATA))
# The driver went away below an open library; it has to be opened again.
CLOSED = frozenset((pynvml.NVML_ERROR_UNINITIALIZED, pynvml.NVML_ERROR_DRIVER_NOT_LOADED))

_WORDS = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: "the driver says not supported",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "this driver is too old to be asked",
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: "this driver is too old to be asked",
    pynvml.NVML_ERROR_INVALID_ARGUMENT: "this driver does not know the question",
    pynvml.NVML_ERROR_NO_PERMISSION: "the driver does not permit it to this user",
}


class Again:
    """When to put a question again that the driver says it does not support.

    Some say so for a moment (a reset, a mode that changes): a metric must not be gone for it until the driver is loaded
    anew. So it is asked for after a minute, after two more, after four, and at last once an hour.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._due: dict[Hashable, tuple[float, float]] = {}  # when it is due, and the pause before that

    def refuse(self, question: Hashable) -> None:
        """Note that it was refused."""
        _, pause = self._due.get(question, (0.0, _AGAIN_SECONDS / 2))
        pause = min(2 * pause, _SELDOM_SECONDS)
        self._due[question] = (self._seconds() + pause, pause)

    def is_due(self, question: Hashable) -> bool:
        """Return whether it is worth asking now; what was never refused is."""
        due, _ = self._due.get(question, (0.0, 0.0))
        return question not in self._due or self._seconds() >= due

    def forget(self, question: Hashable) -> None:
        """Note that it was answered."""
        self._due.pop(question, None)


class Calls:
    """The questions that one GPU answers. One that fails is repeated and counted; one it does not support rarely."""

    def __init__(self, uuid: str, failures: Counter[str], seconds: Callable[[], float] = time.monotonic) -> None:
        self.answered = 0
        self.again = Again(seconds)
        self._uuid = uuid
        self._failures = failures
        self._codes: dict[str, int] = {}  # the newest answer to each question; 0 where there was nothing new

    def supports(self, name: str) -> bool:
        """Return whether the driver does not say that it has no such thing."""
        return self._codes.get(name) not in NEVER

    def refusal(self, name: str) -> str | None:
        """Return why a question is not answered, in words; None where it is, or was never put."""
        code = self._codes.get(name, pynvml.NVML_SUCCESS)
        return None if code == pynvml.NVML_SUCCESS else in_words(code)

    def ask(self, call: Callable[..., T], *arguments: Any) -> T | None:  # noqa: ANN401  # the binding is untyped
        """Return the driver's answer, or None where it has none.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        return self.ask_as(call.__name__, call, *arguments)

    def ask_as(self, name: str, call: Callable[..., T], *arguments: Any) -> T | None:  # noqa: ANN401  # untyped
        """Ask under a name of its own, where one call answers several questions; otherwise as `ask`."""
        codes = self._codes
        if codes.get(name) in NEVER and not self.again.is_due(name):
            return None
        try:
            answer = call(*arguments)
        except pynvml.NVMLError as error:
            self.refused(name, error.value)
            return None
        except pynvml.NVMLLibraryMismatchError:  # a plain Exception: this driver is too old for the call
            codes[name] = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
            self.again.refuse(name)
            return None
        if codes.get(name) in NEVER:
            self.again.forget(name)
        codes[name] = pynvml.NVML_SUCCESS
        self.answered += 1
        return answer

    def refused(self, name: str, code: int) -> None:
        """Note what a refusal means, from the driver's code; the same exceptions as `ask`."""
        if code in _LOST:
            why = f"{name}: {pynvml.NVMLError(code)}"
            raise SourceLostError(f"{self._uuid} does not answer the driver ({why}); reset the GPU or the host")
        if code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            raise DriverChangedError(CHANGED)
        self._codes[name] = pynvml.NVML_SUCCESS if code in _NOTHING_NEW else code
        if code in NEVER:
            self.again.refuse(name)
        elif code not in _NOTHING_NEW:
            self._failures[name] += 1


def in_words(code: int) -> str:
    """Return what the driver's refusal means to a person."""
    return _WORDS.get(code) or f"the driver answers: {pynvml.NVMLError(code)}"


CHANGED = (
    "the NVIDIA library and the loaded kernel driver have different versions: the driver was replaced; "
    "restart the agent, and reload the driver or reboot where that does not help"
)
