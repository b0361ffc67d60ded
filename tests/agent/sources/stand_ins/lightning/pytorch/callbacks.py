"""Stands in for Lightning's callbacks, and for the loop that calls them.

Source: lightning src/lightning/pytorch/callbacks/callback.py and loops/training_epoch_loop.py (2.5).
"""

from typing import Any


class Callback:
    """Has every hook, doing nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return lambda *_, **__: None
        raise AttributeError(name)


class Trainer:
    """Trains nothing, for as many steps as it is told; writes a checkpoint after a batch, as ModelCheckpoint does."""

    def __init__(self, callbacks: list[Any], max_steps: int, save_steps: int) -> None:
        self.callbacks = callbacks
        self.max_steps = max_steps
        self.save_steps = save_steps
        self.global_step = 0
        self.is_global_zero = True

    def fit(self, module: Any) -> None:
        """Go through the hooks."""
        self._call("on_train_start", module)
        for batch in range(self.max_steps):
            self.global_step += 1
            self._call("on_train_batch_end", module, {}, batch, batch)
            if self.global_step % self.save_steps == 0:
                self._call("on_save_checkpoint", module, {})
        self._call("on_train_end", module)

    def _call(self, hook: str, *given: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, hook)(self, *given)
