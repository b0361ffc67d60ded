"""A callback for Lightning's Trainer: `Trainer(..., callbacks=[GpuledgerCallback(samples_per_step=256)])`."""

# ruff: noqa: ANN401, ARG002  the hooks are the framework's

import contextlib
import time
from typing import Any

from gpuledger_progress import tell
from lightning.pytorch.callbacks import Callback


class GpuledgerCallback(Callback):  # type: ignore[misc]
    """Tells gpuledger steps and checkpoints; samples and tokens too, where it is told how many a step takes.

    A step is a batch, of all processes together: Lightning's own counts each optimizer's, and one for several batches
    where gradients are accumulated.
    """

    def __init__(self, samples_per_step: int = 0, tokens_per_step: int = 0) -> None:
        self._per_step = {"samples": samples_per_step, "tokens": tokens_per_step}
        self._batches = 0
        self._told = 0.0
        self._saved = ""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Say where the run begins: only what comes after it counts."""
        self._tell(trainer)

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """Once a second is enough, and at once where a checkpoint was written."""
        self._batches += 1
        if self._saved or time.monotonic() - self._told >= 1:
            self._tell(trainer)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """Lightning calls this before it writes: it is told with the next batch, when it is complete."""
        self._saved = f"step={getattr(trainer, 'global_step', self._batches)}"

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Say the last steps."""
        self._tell(trainer)

    def _tell(self, trainer: Any) -> None:
        with contextlib.suppress(Exception):  # whatever this version of Lightning lacks, the training goes on
            if not trainer.is_global_zero:
                return
            self._told = time.monotonic()
            totals: dict[str, Any] = {"step": self._batches}
            totals |= {name: self._batches * many for name, many in self._per_step.items() if many}
            if self._saved:
                totals["checkpoint"], self._saved = self._saved, ""
            tell(**totals)
