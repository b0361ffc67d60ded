"""A loader that tells gpuledger how long the run waits for data: `for batch in TimedLoader(loader)`."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

from gpuledger_progress import tell


class TimedLoader:
    """Times each `next(loader)`. Wrap the loader itself: what copies to the GPU waits for the GPU's own work too."""

    waited_seconds = 0.0  # of the run: by all its loaders and epochs

    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches; once a second is enough to tell of them."""
        told = asked = time.monotonic()
        tell(data_wait_seconds=TimedLoader.waited_seconds)
        for batch in self._loader:
            came = time.monotonic()
            TimedLoader.waited_seconds += came - asked
            if came - told >= 1:
                told = came
                tell(data_wait_seconds=TimedLoader.waited_seconds)
            yield batch
            asked = time.monotonic()
        TimedLoader.waited_seconds += time.monotonic() - asked
        tell(data_wait_seconds=TimedLoader.waited_seconds)

    def __len__(self) -> int:
        """Return the number of batches, where the loader knows it."""
        return len(self._loader)  # type: ignore[arg-type]
