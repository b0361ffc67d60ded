"""A host whose driver is not there yet, or hangs when it is opened: the agent reads it once it answers.

A GPU that is ill can keep the first call into the driver for ever. So it is made on a thread of its own, as every
other: the rest of the host is read meanwhile, and an order to end is obeyed.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from agent.attribution.devices import Device
from agent.attribution.gpu_process import GpuProcess, Holding
from agent.gpu.nvidia.source import NvmlSource
from agent.source import Reading, Supported
from agent.watchdog_thread import WatchdogThread

_LOG = logging.getLogger(__name__)
_TRY_AGAIN_SECONDS = 60.0
_OPENING_SECONDS = 20.0  # a host whose driver rests wakes its GPUs one after another
_HANGS = "the NVIDIA driver does not answer: opening it hangs"


class WaitingNvml:
    """The GPU source from the moment its driver can be opened; before that it reads nothing, which is no failure.
    While opening it hangs, so does a reading.

    `no_gpu` is why there was no driver at the start, in words; empty where there was. `expected` is how many GPUs this
    host should have, as far as that is known without a driver.

    Raises:
        DriverChangedError: the library and the loaded driver do not fit.
    """

    name = "gpu"
    period_seconds = 0.0

    def __init__(
        self,
        try_to_open: Callable[[], tuple[NvmlSource | None, str]],
        seconds: Callable[[], float] = time.monotonic,
        opening_seconds: float = _OPENING_SECONDS,
        expected: Callable[[], int] = lambda: 0,
    ) -> None:
        self._expected = expected
        self._seconds = seconds
        self._source: NvmlSource | None = None
        self._opener = WatchdogThread("the NVIDIA driver", try_to_open)
        self._opening = True
        self._opener.begin()
        self.no_gpu = self._opened() if self._opener.ready(opening_seconds) else _HANGS
        self._tried = seconds()

    def read(self) -> Reading:
        """Return what the GPUs say, nothing while there is no driver.

        Raises:
            SourceError: the driver does not answer.
            DriverChangedError: the library and the loaded driver do not fit.
        """
        if self._source is None and (self._opening or self._seconds() - self._tried >= _TRY_AGAIN_SECONDS):
            self._open_again()
        return {} if self._source is None else self._source.read()

    def processes(self) -> Sequence[GpuProcess]:
        """Return who held which GPU when that was last said."""
        return self._source.processes() if self._source else []

    def holding(self) -> Holding | None:
        """Return who holds which GPU as the last reading said it; None while no GPU has been read yet.

        A driver that cannot be opened says nothing of anybody.
        """
        if self._source is None:
            return None if self._opening else Holding()
        return self._source.holding() if self._source.was_read else None

    def devices(self) -> Sequence[Device]:
        """Return how each GPU and MIG instance is named."""
        return self._source.devices() if self._source else []

    def xids(self) -> Mapping[str, Mapping[str, int]]:
        """Return by GPU how many XID errors of each class were heard; nothing without a driver."""
        return self._source.xids() if self._source else {}

    def supported(self) -> Sequence[Supported]:
        """Return what each GPU tells, and why not."""
        return self._source.supported() if self._source else []

    @property
    def counts(self) -> tuple[int, int] | None:
        """How many GPUs are expected and seen; None where there is no driver, and nobody knows of a GPU."""
        if self._source is not None:
            return self._source.expected, self._source.seen
        expected = self._expected()
        return (expected, 0) if expected else None

    @property
    def lost(self) -> Sequence[str]:
        """The UUIDs of GPUs that were seen and are gone."""
        return self._source.lost if self._source else []

    @property
    def failures(self) -> Counter[str]:
        """The driver's refusals by question."""
        return self._source.failures if self._source else Counter()

    def close(self) -> None:
        """Give the driver back, where there is one."""
        self._opener.close()
        if self._source is not None:
            self._source.close()

    def _open_again(self) -> None:
        self._tried = self._seconds()
        if not self._opening:
            self._opening = True
            self._opener.begin()
        self._opened()  # the same refusal as before is no news
        if self._source is not None:
            _LOG.info("the NVIDIA driver is there now: its GPUs are read from here on")

    def _opened(self) -> str:
        """Wait until the driver was opened or refused, and return why there is none, in words."""
        while not self._opener.ready(_TRY_AGAIN_SECONDS):
            pass  # who reads this source has long gone on without it
        self._opening = False
        self._source, why = self._opener.answer(0)
        return why
