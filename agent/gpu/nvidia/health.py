"""Whether one GPU is well: ECC errors, replaced rows, replayed packets, and what the driver asks for.

All of it changes rarely and is dear to ask for, so it is asked for now and then. What holds is repeated in between;
what is counted is told when it was asked for, and unknown in between.
"""

from collections.abc import Mapping

import pynvml

from agent.gpu.nvidia import fields
from agent.gpu.nvidia.calls import Calls
from agent.gpu.nvidia.fields import Field, Fields
from agent.gpu.nvidia.meter import Meter
from agent.source import Value

_ECC = {
    "ecc_corrected_events": ("nvmlDeviceGetTotalEccErrors(corrected)", pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
    "ecc_uncorrected_events": ("nvmlDeviceGetTotalEccErrors(uncorrected)", pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
}
_ECC_QUESTION = _ECC["ecc_uncorrected_events"][0]
_ROWS = {
    "remapped_rows_corrected": fields.REMAPPED_CORRECTED,
    "remapped_rows_uncorrected": fields.REMAPPED_UNCORRECTED,
    "row_remap_pending": fields.REMAP_PENDING,
    "row_remap_failure": fields.REMAP_FAILURE,
}
_FLAGS = frozenset(("row_remap_pending", "row_remap_failure"))
# nvml.h, NVML_GPU_RECOVERY_ACTION_*, from 0
_ACTIONS = (
    "none",
    "gpu_reset",
    "node_reboot",
    "drain_p2p",
    "drain_and_reset",
    "recover_imex_domain",
    "bus_reset",
    "system_reboot",
)


class Health:
    """Asks about one GPU's health at each `look`, and tells the newest answers."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._batch = Fields(calls, fields.NOW_AND_THEN)
        self._events = {name: Meter(over_silence=True) for name in (*_ECC, "pcie_replay_events")}
        self._lasting: Mapping[str, Value] = {}
        self._counted: Mapping[str, Value] = dict.fromkeys(self._events)

    def look(self, handle: object) -> None:
        """Ask the driver.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        values = self._batch.read(handle)
        self._lasting = {**self._rows(handle, values), "recovery_action": action(values.get(fields.RECOVERY_ACTION))}
        totals = {"pcie_replay_events": values.get(fields.PCIE_REPLAYS)}
        for column, (name, kind) in _ECC.items():
            totals[column] = self._calls.ask_as(
                name, pynvml.nvmlDeviceGetTotalEccErrors, handle, kind, pynvml.NVML_VOLATILE_ECC
            )
        self._counted = {column: meter.amount(totals[column]) for column, meter in self._events.items()}

    def read(self) -> Mapping[str, Value]:
        """Return the columns, each count once."""
        counted, self._counted = self._counted, dict.fromkeys(self._events)
        return {**self._lasting, **counted}

    @property
    def ecc_refusal(self) -> str | None:
        """Why ECC errors are not counted, in words; None where they are."""
        return self._calls.refusal(_ECC_QUESTION)

    @property
    def rows_refusal(self) -> str | None:
        """Why replaced rows are unknown, in words; None where they are known."""
        if self._batch.refusal(fields.REMAPPED_CORRECTED) is None:
            return None
        return self._calls.refusal(pynvml.nvmlDeviceGetRemappedRows.__name__)

    def _rows(self, handle: object, values: Mapping[Field, int]) -> Mapping[str, Value]:
        """Replaced rows by field, else by the older call (corrected, uncorrected, pending, failure)."""
        found: Mapping[str, int | None] = {name: values.get(field) for name, field in _ROWS.items()}
        if all(value is None for value in found.values()):
            answer = self._calls.ask(pynvml.nvmlDeviceGetRemappedRows, handle)
            found = dict(zip(_ROWS, answer or (None,) * len(_ROWS), strict=True))
        return {name: bool(value) if name in _FLAGS and value is not None else value for name, value in found.items()}


def action(number: int | None) -> str | None:
    """Return the driver's word for what it asks for; one that is newer than we are keeps its number."""
    if number is None:
        return None
    return _ACTIONS[number] if number < len(_ACTIONS) else f"action_{number}"
