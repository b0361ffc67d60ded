"""Open the driver's library, and open it again when the driver went away below it."""

import contextlib

import pynvml

from agent.errors import DriverChangedError, SourceError
from agent.gpu.nvidia.calls import CHANGED, CLOSED


def open_library() -> str | None:
    """Open the driver's library; return None where it is open, else why there is none, in words.

    Raises:
        DriverChangedError: the library and the loaded driver do not fit.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            raise DriverChangedError(CHANGED) from error
        if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            return "libnvidia-ml.so.1 is not installed"
        return str(error)
    return None


def device_count() -> int:
    """Return how many GPUs the driver lists.

    Raises:
        SourceError: the driver does not answer; it was opened again if it had gone away.
        DriverChangedError: another driver answers.
    """
    try:
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            raise DriverChangedError(CHANGED) from error
        if error.value in CLOSED:
            open_library()
        message = f"the NVIDIA driver does not list its GPUs ({error})"
        raise SourceError(f"{message}; see whether it is loaded and whether this user may open it") from error


def driver_version() -> str | None:
    """Return the driver's version, or None where it does not say."""
    try:
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None


def close_library() -> None:
    """Give the library back; a driver that is already gone is no failure."""
    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlShutdown()
