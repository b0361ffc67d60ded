"""A callback for Hugging Face's Trainer: `Trainer(..., callbacks=[GpuledgerCallback()])`."""

# ruff: noqa: ANN401, ARG002  the hooks are the framework's

import contextlib
import time
from typing import Any

from gpuledger_progress import tell
from transformers import TrainerCallback


class GpuledgerCallback(TrainerCallback):  # type: ignore[misc]
    """Tells gpuledger steps, samples and checkpoints; tokens too, with `include_num_input_tokens_seen=True`."""

    def __init__(self) -> None:
        self._told = 0.0
        self._step: int | None = None
        self._samples = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Say where the run begins, which is not 0 after a checkpoint: only what comes after it counts."""
        self._step = None
        self._tell(args, state, given)

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Once a second is enough."""
        if time.monotonic() - self._told >= 1:
            self._tell(args, state, given)

    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Trainer calls this when the checkpoint is written."""
        self._tell(args, state, given, checkpoint=True)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Say the last steps."""
        self._tell(args, state, given)

    def _tell(self, args: Any, state: Any, given: dict[str, Any], *, checkpoint: bool = False) -> None:
        with contextlib.suppress(Exception):  # whatever this version of Trainer lacks, the training goes on
            if not state.is_world_process_zero:
                return
            self._told, step = time.monotonic(), state.global_step
            totals: dict[str, Any] = {"step": step}
            with contextlib.suppress(Exception):
                batch = _batch(args, state, given)
                self._samples += batch * max(0, step - (step if self._step is None else self._step))
                totals["samples"] = self._samples
            self._step = step
            totals["tokens"] = getattr(state, "num_input_tokens_seen", None) or None
            if checkpoint:
                totals["checkpoint"] = f"checkpoint-{step}"
            tell(**totals)


def _batch(args: Any, state: Any, given: dict[str, Any]) -> int:
    """Return the samples of a step over all processes, as Trainer's own get_total_train_batch_size() counts them.

    Processes that share a batch (tensor, context, sequence and pipeline parallel) take one between them, and the batch
    is that of the loop, which may be smaller than what was asked for (`auto_find_batch_size`).
    """
    config, model = getattr(args, "parallelism_config", None), given.get("model")
    deepspeed = getattr(getattr(args, "hf_deepspeed_config", None), "config", None) or {}
    tensor = [getattr(model, "tp_size", None), getattr(model, "_tp_size", None), getattr(config, "tp_size", None)]
    tensor.append(deepspeed.get("tensor_parallel", {}).get("autotp_size"))
    sharing = max(size or 1 for size in tensor)
    for kind in ("cp_size", "sp_size", "pp_size"):
        sharing *= getattr(config, kind, None) or 1
    batch = getattr(state, "train_batch_size", None) or args.train_batch_size
    return int(batch * args.gradient_accumulation_steps * max(1, args.world_size // sharing))
