"""The memory of a model on each GPU: its parts, and their sum. A part that is not known makes the sum "at least".

What is kept whatever the batch: weights, gradients, the optimizer's states. Adam in mixed precision is 16 bytes a
parameter: 2 weights, 2 gradients, 4 for the 32-bit copy, 4 + 4 for the moments. Source: Rajbhandari et al. 2020 (ZeRO),
section 3.1, and figure 1 for what each stage divides.

What a step keeps for its way back: training, one layer, each GPU of `tensor` that split its matrices. Source:
Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models, section 4.1 and table 2, with
the widths of the model at hand in place of the paper's (an MLP of 4 h with GELU, as many key/value heads as heads,
dropout), for which they come to its s b h (10 + 24/t + 5 a s / (h t)).

Approximated: nothing is kept twice, no allocator rounds; recomputing `none` has the paper's five bytes for each score
of attention; a pipeline's first stage holds as many layers' batches as there are layers, as with 1F1B (the paper's
equation 5); a mixture of experts sends its tokens to all experts evenly.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

from analyzer.sizing.model import (
    COPY_BYTES,
    MOMENT_BYTES,
    WIDE_BITS,
    Model,
    Purpose,
    Shape,
    Sharding,
    Work,
    find_model,
    work_of,
)
from analyzer.text.words import gib

_BITS_PER_BYTE = 8
_GATHERED_LAYERS = 2  # ZeRO-3 and FSDP hold the layer that is computed whole, and the next one while it is fetched


@dataclass(frozen=True, slots=True)
class States:
    """Bytes on one GPU. None: not known without the model's shape. `gathered` are weights of others, for a while."""

    weights: int
    gathered: int
    adapters: int | None
    gradients: int | None
    optimizer: int | None


def states(model: Model, work: Work, sharding: Sharding) -> States:
    """Return what each GPU keeps."""
    weights = _up(Fraction(_weight_bytes(model, work, sharding.pipeline), sharding.tensor))
    shard = _up(Fraction(weights, sharding.data)) if sharding.zero == 3 else weights
    trained = _trained(model, work, sharding)
    value, state = work.value_bytes, _state_bytes(work)
    return States(
        weights=shard,
        gathered=min(_gathered(model, work, sharding), weights - shard),
        adapters=_shared(trained, value, sharding, 3) if work.purpose in ("lora", "qlora") else 0,
        gradients=_shared(trained, value, sharding, 2),
        optimizer=_shared(trained, state, sharding, 1),
    )


def weight_bytes(model: Model, work: Work) -> int:
    """Return the bytes of all weights together."""
    return _weight_bytes(model, work, 1)


def _weight_bytes(model: Model, work: Work, pipeline: int) -> int:
    """Return the bytes of the weights of the largest stage; without a shape every weight counts as quantised."""
    shape, bits = model.shape, work.precision.bits
    if shape is None:
        return _up(Fraction(model.parameters) * bits / _BITS_PER_BYTE / pipeline)
    linear = -(-shape.layers // pipeline) * shape.layer_linear_parameters
    rest = _of_shape(shape, pipeline) - linear
    wide = Fraction(WIDE_BITS) if work.precision.quantises else bits
    return _up((linear * bits + rest * wide) / _BITS_PER_BYTE * _scale(model, shape))


def _stage_parameters(model: Model, pipeline: int) -> int:
    """Return the parameters of the largest of the pipeline's stages: the first and the last have one end each."""
    shape = model.shape
    if shape is None:
        return -(-model.parameters // pipeline)
    return _up(_of_shape(shape, pipeline) * _scale(model, shape))


def _of_shape(shape: Shape, pipeline: int) -> int:
    layers = -(-shape.layers // pipeline)
    stage = layers * shape.layer_parameters + shape.embedding_parameters + shape.hidden
    return shape.parameters if pipeline == 1 else min(shape.parameters, stage)


def _scale(model: Model, shape: Shape) -> Fraction:
    """Return how many times its shape's parameters a model has: 1, but for one whose shape is told in part."""
    return Fraction(model.parameters, shape.parameters)


def _trained(model: Model, work: Work, sharding: Sharding) -> int | None:
    """Return how many parameters of one GPU's part are trained."""
    if work.purpose == "inference":
        return 0
    if work.purpose == "full":
        return -(-_stage_parameters(model, sharding.pipeline) // sharding.tensor)
    if model.shape is None:
        return None
    adapters = model.shape.adapter_parameters(work.rank)
    layers = -(-model.shape.layers // sharding.pipeline)
    return -(-adapters * layers // (model.shape.layers * sharding.tensor))


def _state_bytes(work: Work) -> int:
    """Return the optimizer's bytes for a trained parameter; in 32 bits the weights are their own copy."""
    return MOMENT_BYTES[work.optimizer] + (0 if work.value_bytes == COPY_BYTES else COPY_BYTES)


def _shared(trained: int | None, each: int, sharding: Sharding, from_stage: int) -> int | None:
    if trained is None:
        return None
    return -(-trained * each // sharding.data) if sharding.zero >= from_stage else trained * each


def _gathered(model: Model, work: Work, sharding: Sharding) -> int:
    """Return the bytes of layers that are whole for a while; without a shape none is known, and none counted."""
    if model.shape is None or sharding.zero < 3:
        return 0
    layer = model.shape.layer_linear_parameters * work.precision.bits / _BITS_PER_BYTE
    return _up(_GATHERED_LAYERS * layer / sharding.tensor)


def _up(amount: Fraction) -> int:
    return -(-amount.numerator // amount.denominator)


_SCORE_BYTES = 5  # softmax 2, its dropout's mask 1 and output 2
_LOGIT_BYTES = 4  # the loss is computed in 32 bits
_PROMPT_TOKENS = 8192  # a longer prompt goes through in pieces of so many tokens: vLLM's default for chunked prefill


def layer_bytes(shape: Shape, work: Work, tensor: int = 1) -> int:
    """Return what one layer keeps of a batch, with what attention's scores take unless they are recomputed."""
    linear = _replicated(shape) + _divided(shape, tensor)
    scores = _SCORE_BYTES * shape.heads * work.context**2 * work.batch if work.recompute == "none" else 0
    return (linear * work.tokens + -(-scores // tensor)) * work.value_bytes // 2


def _training_bytes(shape: Shape, work: Work, sharding: Sharding) -> int:
    """Return what all layers keep, and the outputs: final norm, output layer's input, logits: 4 s b (h + v)."""
    tensor = sharding.tensor
    outputs = _LOGIT_BYTES * work.tokens * (shape.hidden + -(-shape.vocabulary // tensor))
    if work.recompute != "full":
        return shape.layers * layer_bytes(shape, work, tensor) + outputs
    # Each layer's input stays, on every GPU; one layer at a time is computed anew.
    inputs = shape.layers * work.value_bytes * shape.hidden * work.tokens
    return min(inputs + layer_bytes(shape, work, tensor), shape.layers * layer_bytes(shape, work, tensor)) + outputs


def _prompt_bytes(shape: Shape, work: Work, sharding: Sharding) -> int:
    """Return what a forward pass takes at once: the residual, the MLP's widest tensors, logits of the last tokens.

    Ours: one layer's live tensors; servers measure it when they start.
    """
    tokens = min(work.batch * work.context, _PROMPT_TOKENS)
    wide = (2 if shape.is_gated else 1) * shape.intermediate * shape.experts_active
    live = (shape.hidden + -(-wide // sharding.tensor)) * tokens * work.value_bytes
    return live + _LOGIT_BYTES * work.sequences * -(-shape.vocabulary // sharding.tensor)


def cache_bytes(shape: Shape, work: Work, sharding: Sharding) -> int:
    """Return keys and values of all sequences: 2 x layers x key/value heads x width x tokens x bytes of a value.

    Source: Kwon et al. 2023 (vLLM), section 3; vLLM's blocks of 16 tokens are what it rounds up to, and left out.
    """
    value = work.value_bytes if work.cache is None else int(work.cache.bits) // 8
    layers = -(-shape.layers // sharding.pipeline)
    each = 2 * layers * shape.key_value_width(sharding.tensor) * value
    return each * work.context * -(-work.sequences // sharding.data)


def _replicated(shape: Shape) -> int:
    """Bytes a token that every GPU of a split keeps: two norms, two inputs, the masks behind them."""
    return 8 * shape.hidden + (2 * shape.hidden if shape.has_dropout else 0)


def _divided(shape: Shape, tensor: int) -> int:
    """Bytes a token that are divided: queries, keys, values, the output's input; what is between the MLP's linears."""
    attention = 2 * -(-2 * shape.query_width // tensor) + 4 * shape.key_value_width(tensor)
    # Gated: gate, its activation, up, and their product. Without: in front of and behind the activation.
    kept = 4 if shape.is_gated else 2
    return attention + -(-2 * kept * shape.intermediate * shape.experts_active // tensor)


# Assumed, for each GPU: the context with its kernels, the libraries' workspaces, the buffers of collectives. vLLM logs
# 0.1 GiB outside of PyTorch on one GPU (its issue 12330), kvplan counts 0.6 with graphs and compiled code; collectives
# come on top. What an allocator loses to gaps is for the headroom.
_OVERHEAD_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One part of the memory of a GPU, in bytes; None: not known without the model's shape. `told` says what it is."""

    name: str
    bytes: int | None
    told: str


@dataclass(frozen=True, slots=True)
class Memory:
    """What one GPU holds, part by part."""

    parts: tuple[MemoryPart, ...]
    sharding: Sharding

    @property
    def total_bytes(self) -> int:
        """The sum of what is known."""
        return sum(part.bytes or 0 for part in self.parts)

    @property
    def is_whole(self) -> bool:
        """Whether every part is known; else the total is "at least"."""
        return all(part.bytes is not None for part in self.parts)

    def of(self, name: str) -> int | None:
        """Return one part's bytes; None where it is not known, or there is none."""
        return next((part.bytes for part in self.parts if part.name == name), None)


def memory(model: Model, work: Work, sharding: Sharding) -> Memory:
    """Return what each GPU holds of this model for this work, spread so. Of several stages it is the fullest."""
    kept = states(model, work, sharding)
    parts = [MemoryPart("weights", kept.weights, f"{work.precision.name}{_wide(model, work)}")]
    if sharding.zero == 3 and sharding.data > 1:
        parts.append(MemoryPart("gathered weights", kept.gathered, "two layers at a time are whole while they compute"))
    parts += _training_parts(work, kept.adapters, kept.gradients, kept.optimizer) if work.is_training else []
    parts += _moving(model, work, sharding)
    parts.append(MemoryPart("framework", _OVERHEAD_BYTES, "assumed: context, kernels, workspaces, collectives"))
    return Memory(tuple(parts), sharding)


def _wide(model: Model, work: Work) -> str:
    if not work.precision.quantises:
        return ""
    return "; embeddings and norms in 16 bits" if model.shape else "; embeddings too: its shape is not known"


def _training_parts(work: Work, adapters: int | None, gradients: int | None, optimizer: int | None) -> list[MemoryPart]:
    found = [MemoryPart("adapters", adapters, f"rank {work.rank} on every linear")] if work.purpose != "full" else []
    copy = "moments" if work.value_bytes == 4 else "32-bit copy, moments"
    return [
        *found,
        MemoryPart("gradients", gradients, f"{work.value_bytes} bytes for each parameter that is trained"),
        MemoryPart("optimizer", optimizer, f"{work.optimizer}: {copy}"),
    ]


def _moving(model: Model, work: Work, sharding: Sharding) -> list[MemoryPart]:
    """Return what depends on batch, context and sequences."""
    shape = model.shape
    if work.is_training:
        told = f"batch {work.batch} x {work.context:,} tokens, recompute {work.recompute}"
        if shape is None:
            return [MemoryPart("activations", None, told)]
        if work.recompute != "full":
            less = _training_bytes(shape, replace(work, recompute="full"), sharding)
            told += f"; {gib(less)} with --recompute full"
        return [MemoryPart("activations", _training_bytes(shape, work, sharding), told)]
    cache = (work.cache.name if work.cache else None) or ("fp32" if work.value_bytes == 4 else "bf16")
    told = f"{work.sequences:,} x {work.context:,} tokens, {cache}"
    return [
        MemoryPart("KV cache", None if shape is None else cache_bytes(shape, work, sharding), told),
        MemoryPart(
            "prompt", None if shape is None else _prompt_bytes(shape, work, sharding), "one layer's widest tensors"
        ),
    ]


_TRAINS_ALL = "pretraining"  # the stage in which every weight has its gradient


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes on each GPU, spread over all of them as evenly as can be, without activations, cache and framework.

    `least_bytes` are weights in 4 bits, below which nothing goes; `usual_bytes` are 16 bits, and of a run that trains
    all weights what Adam keeps.
    """

    model: str
    least_bytes: int
    usual_bytes: int


def need_of(model: str | None, stage: str | None, gpus: int) -> Need | None:
    """Return what a run's model needs; None where no model is named, or none of the table."""
    found = find_model(model) if model else None
    if found is None:
        return None
    purpose: Purpose = "full" if stage == _TRAINS_ALL else "inference"
    spread = Sharding(3, data=gpus)
    kept = states(found, work_of(purpose), spread)
    usual = kept.weights + (kept.gradients or 0) + (kept.optimizer or 0)
    least = -(-weight_bytes(found, work_of("inference", "nf4")) // gpus)
    return Need(found.name, min(least, usual), usual)
