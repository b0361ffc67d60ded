"""Ask the driver, and say what each of its refusals means."""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

from agent.errors import DriverChangedError, SourceLostError

T = TypeVar("T")

# The answer will be the same until the driver or the MIG mode changes: do not ask again.
NEVER = frozenset(
    (
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    )
)
# The device cannot be used until somebody resets it or the host.
LOST = frozenset((pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED, pynvml.NVML_ERROR_GPU_NOT_FOUND))
# Nothing is wrong, there is merely nothing to say. The binding raises NVMLError(0) for an empty list.
NOTHING_NEW = frozenset((pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_NO_DATA))
# The driver went away below an open library; it has to be opened again.
CLOSED = frozenset((pynvml.NVML_ERROR_UNINITIALIZED, pynvml.NVML_ERROR_DRIVER_NOT_LOADED))


class Calls:
    """The questions that one GPU answers. One it does not support is not repeated; one that fails is, and counted."""

    def __init__(self, uuid: str, failures: Counter[str]) -> None:
        self.answered = 0
        self._uuid = uuid
        self._failures = failures
        self._unsupported: set[str] = set()

    def supports(self, name: str) -> bool:
        """Return whether the question is still worth asking."""
        return name not in self._unsupported

    def ask(self, call: Callable[..., T], *arguments: Any) -> T | None:  # noqa: ANN401  # the binding is untyped
        """Return the driver's answer, or None where it has none.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        name = call.__name__
        if name in self._unsupported:
            return None
        try:
            answer = call(*arguments)
        except pynvml.NVMLError as error:
            self.refused(name, error.value)
            return None
        except pynvml.NVMLLibraryMismatchError:  # a plain Exception: this driver is too old for the call
            self._unsupported.add(name)
            return None
        self.answered += 1
        return answer

    def refused(self, name: str, code: int) -> None:
        """Note what a refusal means, from the driver's code; the same exceptions as `ask`."""
        if code in LOST:
            why = f"{name}: {pynvml.NVMLError(code)}"
            raise SourceLostError(f"{self._uuid} does not answer the driver ({why}); reset the GPU or the host")
        if code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            raise DriverChangedError(CHANGED)
        if code in NEVER:
            self._unsupported.add(name)
        elif code not in NOTHING_NEW:
            self._failures[name] += 1


CHANGED = (
    "the NVIDIA library and the loaded kernel driver have different versions: the driver was replaced; "
    "restart the agent, and reload the driver or reboot where that does not help"
)
