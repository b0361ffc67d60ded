"""NVLink traffic from the driver's counters, in whichever form this architecture has them.

Up to Hopper fields 138 and 139 count KiB over all links. Blackwell has fields 202 and 204 instead, in bytes, for each
link, and in newer drivers summed over the links too. Without any of them GPM tells rates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pynvml

from agent.gpu.nvidia.calls import Calls
from agent.gpu.nvidia.fields import ALL_LINKS, LINK_COUNT, NVLINK_RECEIVE, NVLINK_TRANSMIT, Field, Fields
from agent.gpu.nvidia.meter import Meter
from agent.wire.units import KIB

_RECEIVED = pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES
_TRANSMITTED = pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES
_MOST_LINKS = int(pynvml.NVML_NVLINK_MAX_LINKS)


@dataclass(frozen=True, slots=True)
class Form:
    """Which fields hold the traffic, to be added up, and the bytes of their unit."""

    receive: Sequence[Field]
    transmit: Sequence[Field]
    unit: int

    @property
    def fields(self) -> tuple[Field, ...]:
        """All of them."""
        return (*self.receive, *self.transmit)


_KIBIBYTES = Form((NVLINK_RECEIVE,), (NVLINK_TRANSMIT,), KIB)
_BYTES = Form(((_RECEIVED, ALL_LINKS),), ((_TRANSMITTED, ALL_LINKS),), 1)


def _each_link(count: int) -> Form:
    """Return the form of so many links, each counted by itself, in bytes."""
    links = range(min(count, _MOST_LINKS))
    return Form([(_RECEIVED, link) for link in links], [(_TRANSMITTED, link) for link in links], 1)


class NvLink:
    """Follows the counters of one GPU, in the first form that its driver knows."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._form = _KIBIBYTES
        self._known = False
        self._meters: dict[Field, Meter] = {}

    @property
    def refusal(self) -> str | None:
        """Why there are no counters, in words; None where there are."""
        return None if self._known else self._fields.refusal(NVLINK_RECEIVE)

    def read(self, values: Mapping[Field, int]) -> Mapping[str, int | None]:
        """Return the bytes of the interval by column; no column where the counters have no value now."""
        form = self._form
        if not any(field in values for field in form.fields):
            self._meters.clear()
            return {}
        self._known = True
        return {
            "nvlink_receive_bytes": self._sum(form.receive, values, form.unit),
            "nvlink_transmit_bytes": self._sum(form.transmit, values, form.unit),
        }

    def look(self, calls: Calls, handle: object) -> None:
        """Where the driver refused this form, look for another that it answers.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        if self._known or not all(self._fields.refusal(field) for field in self._form.fields):
            return
        form = _answered(_BYTES, calls, handle)
        if not form.fields:
            links = Fields(calls, (LINK_COUNT,)).read(handle).get(LINK_COUNT, _MOST_LINKS)
            form = _answered(_each_link(links), calls, handle)
        if form.fields:
            self._form = form
            self._fields.want(form.fields)

    def _sum(self, fields: Sequence[Field], values: Mapping[Field, int], unit: int) -> int | None:
        """Return the growth over the links that count, in bytes; unknown where that of one is."""
        counting = [field for field in fields if field in values or self._still_counts(field)]
        amounts = [self._meters.setdefault(field, Meter()).amount(values.get(field)) for field in counting]
        known = [amount for amount in amounts if amount is not None]
        return sum(known) * unit if amounts and len(known) == len(amounts) else None

    def _still_counts(self, field: Field) -> bool:
        return field in self._meters and self._fields.wants(field)


def _answered(form: Form, calls: Calls, handle: object) -> Form:
    """Return what the driver answers of a form."""
    found = Fields(calls, form.fields).read(handle)
    receive, transmit = ([field for field in half if field in found] for half in (form.receive, form.transmit))
    return Form(receive, transmit, form.unit)
