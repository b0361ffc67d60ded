"""A callback for Hugging Face's Trainer: `Trainer(..., callbacks=[GpuledgerCallback()])`."""

# ruff: noqa: ANN401, ARG002  the hooks are the framework's

import time
from typing import Any

from gpuledger_progress import tell
from transformers import TrainerCallback


class GpuledgerCallback(TrainerCallback):  # type: ignore[misc]
    """Tells gpuledger steps, samples and checkpoints; tokens too, with `include_num_input_tokens_seen=True`."""

    def __init__(self) -> None:
        self._told = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Say where the run begins, which is not 0 after a checkpoint: only what comes after it counts."""
        self._tell(args, state)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Once a second is enough."""
        if time.monotonic() - self._told >= 1:
            self._tell(args, state)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Trainer calls this when the checkpoint is written."""
        self._tell(args, state, checkpoint=f"checkpoint-{state.global_step}")

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Say the last steps."""
        self._tell(args, state)

    def _tell(self, args: Any, state: Any, **also: str) -> None:
        if not state.is_world_process_zero:
            return
        self._told = time.monotonic()
        batch = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        totals = {"step": state.global_step, "samples": state.global_step * batch}
        if state.num_input_tokens_seen:
            totals["tokens"] = state.num_input_tokens_seen
        tell(**totals, **also)
