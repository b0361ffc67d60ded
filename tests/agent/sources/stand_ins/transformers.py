"""Stands in for Hugging Face's transformers: the hooks of a Trainer, in the order in which it calls them.

Source: transformers src/transformers/trainer.py and trainer_callback.py (4.57).
"""

from types import SimpleNamespace
from typing import Any


class TrainerCallback:
    """Has every hook, doing nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return lambda *_, **__: None
        raise AttributeError(name)


class Trainer:
    """Trains nothing, for as many steps as it is told."""

    def __init__(self, callbacks: list[Any], max_steps: int, save_steps: int, resumed_at: int = 0) -> None:
        self.callbacks = callbacks
        self.max_steps = max_steps
        self.save_steps = save_steps
        self.args = SimpleNamespace(train_batch_size=4, gradient_accumulation_steps=2, world_size=8)
        self.state = SimpleNamespace(global_step=resumed_at, is_world_process_zero=True, num_input_tokens_seen=0)

    def train(self) -> None:
        """Go through the hooks."""
        self._call("on_train_begin")
        while self.state.global_step < self.max_steps:
            self._call("on_step_begin")
            self.state.global_step += 1
            self.state.num_input_tokens_seen += 65_536
            self._call("on_step_end")
            if self.state.global_step % self.save_steps == 0:
                self._call("on_save")
        self._call("on_train_end")

    def _call(self, hook: str) -> None:
        for callback in self.callbacks:
            getattr(callback, hook)(self.args, self.state, SimpleNamespace(), model=None)
