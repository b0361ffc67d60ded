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
from math import ceil

from analyzer.sizing.model import Model, find_model
from analyzer.sizing.shape import Parts, Shape
from analyzer.sizing.work import WIDE_BITS, Precision, Purpose, Sharding, Work, work_of
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
    weights = _weights(model, work.precision, sharding)
    shard = ceil(Fraction(weights, sharding.data)) if sharding.zero == 3 else weights
    trained = _trained(model, work, sharding)
    value = work.value_bytes
    tuned = work.purpose in ("lora", "qlora")
    return States(
        weights=shard,
        gathered=min(_gathered(model, work, sharding), weights - shard),
        adapters=_shared(trained, value, sharding, 3) if tuned else _slots(model, work, sharding),
        gradients=_shared(_with_gradient(model, work, trained), value, sharding, 2),
        optimizer=_shared(trained, work.state_bytes, sharding, 1),
    )


def weight_bytes(model: Model, work: Work) -> int:
    """Return the bytes of all weights together."""
    return _weights(model, work.precision, Sharding())


def _weights(model: Model, precision: Precision, sharding: Sharding) -> int:
    """Return the bytes of weights on a GPU of the largest stage; without a shape every weight counts as quantised.

    A tower for images is not split, but held whole by each GPU, as are small parts of layers. Bytes that the files have
    go before what we count.
    """
    shape, tensor, pipeline = model.shape, sharding.tensor, sharding.pipeline
    if shape is None:
        return ceil(ceil(model.parameters * precision.bits_of_all / _BITS_PER_BYTE / pipeline) / Fraction(tensor))
    whole = shape.parts()
    tower = Fraction(whole.tower * WIDE_BITS, _BITS_PER_BYTE)
    stage = _bytes_of(shape.parts(pipeline), precision, shape) - tower
    scale = Fraction(model.parameters, whole.total)
    if (stored := _stored_bytes(model, precision)) is not None:
        scale = stored / _bytes_of(whole, precision, shape)
    copied = _bytes_of(shape.copied(tensor, pipeline), precision, shape) if tensor > 1 else 0
    return ceil(ceil(stage * scale) / Fraction(tensor) + (tower + copied) * scale)


def _stored_bytes(model: Model, precision: Precision) -> int | None:
    """Return what the files have, None where there are none or the weights are to be held otherwise."""
    return model.stored_bytes if precision == model.precision else None


def _bytes_of(parts: Parts, precision: Precision, shape: Shape) -> Fraction:
    wide = Fraction(WIDE_BITS) if precision.quantises else precision.bits
    ends = wide
    if precision.ends is not None:  # one that serves as both is held as the output layer
        ends = precision.ends[1] if shape.is_tied else Fraction(sum(precision.ends), 2)
    spared = dict(precision.spared)
    width = shape.expert_width or shape.intermediate
    padded = Fraction(-(-width // precision.pads_to) * precision.pads_to, width)
    bits = parts.other * ends + parts.tower * WIDE_BITS
    for kind, count in (("attention", parts.attention), ("mlp", parts.mlp), ("expert", parts.expert * padded)):
        share = next((share for name, share in spared.items() if name == kind), Fraction(0))
        bits += count * (precision.bits * (1 - share) + wide * share)
    return bits / _BITS_PER_BYTE


def _trained(model: Model, work: Work, sharding: Sharding) -> int | None:
    """Return how many parameters of one GPU's part are trained."""
    if work.purpose == "inference":
        return 0
    if work.purpose == "full":
        stage = model.shape.parts(sharding.pipeline).total if model.shape else -(-model.parameters // sharding.pipeline)
        scale = Fraction(model.parameters, model.shape.parameters) if model.shape else Fraction(1)
        return -(-ceil(stage * scale) // sharding.tensor)
    return _adapter(model, work, sharding)


def _adapter(model: Model, work: Work, sharding: Sharding) -> int | None:
    if model.shape is None:
        return None
    layers = -(-model.shape.layers // sharding.pipeline)
    return -(-model.shape.adapter_parameters(work.rank) * layers // (model.shape.layers * sharding.tensor))


def _slots(model: Model, work: Work, sharding: Sharding) -> int | None:
    """Return the bytes of the adapters that a server keeps loaded."""
    if not work.adapters:
        return 0
    each = _adapter(model, work, sharding)
    return None if each is None else work.adapters * each * work.value_bytes


def _with_gradient(model: Model, work: Work, trained: int | None) -> int | None:
    """Return how many parameters have their gradients at once: a layer's, where each is used up as it is made."""
    if trained is None or "offloaded" in work.states:
        return None if trained is None else 0
    if "in_backward" not in work.states or not trained:
        return trained
    return trained if model.shape is None else -(-trained // model.shape.layers)


def _shared(trained: int | None, each: int, sharding: Sharding, from_stage: int) -> int | None:
    if trained is None:
        return None
    return -(-trained * each // sharding.data) if sharding.zero >= from_stage else trained * each


def _gathered(model: Model, work: Work, sharding: Sharding) -> int:
    """Return the bytes of layers that are whole for a while; without a shape none is known, and none counted."""
    if model.shape is None or sharding.zero < 3:
        return 0
    layer = Fraction(model.shape.parts().linears, model.shape.layers) * work.precision.bits / _BITS_PER_BYTE
    return ceil(_GATHERED_LAYERS * layer / sharding.tensor)


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
    wide = (2 if shape.is_gated else 1) * shape.active_width
    live = (shape.hidden + -(-wide // sharding.tensor)) * tokens * work.value_bytes
    return live + _LOGIT_BYTES * work.sequences * -(-shape.vocabulary // sharding.tensor)


def cache_bytes(shape: Shape, work: Work, sharding: Sharding) -> int | None:
    """Return keys and values of all sequences: 2 x layers x key/value heads x width x tokens x bytes of a value.

    Layers that look back a window keep no more than it, those that read another layer's keys nothing; of latent
    attention (MLA) what is latent is kept, whole on each GPU; recurrent layers keep a state for each sequence. None:
    the size of that state is not known.

    Source: Kwon et al. 2023 (vLLM), section 3; vLLM's blocks of 16 tokens are what it rounds up to, and left out.
    """
    if shape.state_values is None:
        return None
    value = work.value_bytes if work.cache is None else int(work.cache.bits) // 8
    stages = sharding.pipeline
    seen = -(-(shape.full_layers - shape.uncached_full_layers) // stages) * work.context
    full = seen * shape.full().cached_values(sharding.tensor)
    windowed = -(-(shape.windowed_layers - shape.uncached_windowed_layers) // stages) * min(work.context, shape.window)
    values = full + windowed * shape.cached_values(sharding.tensor)
    states = -(-shape.recurrent_layers // stages) * -(-shape.state_values // sharding.tensor) * work.value_bytes
    each = values * value + seen * shape.index_bytes + states
    return each * -(-work.sequences // sharding.data)


def _replicated(shape: Shape) -> int:
    """Bytes a token that every GPU of a split keeps: two norms, two inputs, the masks behind them."""
    return 8 * shape.hidden + (2 * shape.hidden if shape.has_dropout else 0)


def _divided(shape: Shape, tensor: int) -> int:
    """Bytes a token that are divided: queries, keys, values, the output's input; what is between the MLP's linears."""
    attention = 2 * -(-2 * shape.query_width // tensor) + 4 * shape.key_value_width(tensor)
    # Gated: gate, its activation, up, and their product. Without: in front of and behind the activation.
    kept = 4 if shape.is_gated else 2
    return attention + -(-2 * kept * shape.active_width // tensor)


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
    is_stored = _stored_bytes(model, work.precision) is not None
    if model.shape is not None and model.shape.tower_parameters is None and not is_stored:
        parts.append(MemoryPart("tower", None, "or embeddings by layer, of widths that are not read"))
    if model.shape is not None and model.shape.state_values is None and not is_stored:
        parts.append(
            MemoryPart("recurrent layers", None, f"{model.shape.recurrent_layers or 'some'}, of a kind not known")
        )
    if sharding.zero == 3 and sharding.data > 1:
        parts.append(MemoryPart("gathered weights", kept.gathered, "two layers at a time are whole while they compute"))
    if work.is_training:
        parts += _training_parts(work, kept)
    elif work.adapters:
        parts.append(MemoryPart("adapters", kept.adapters, f"{work.adapters:,} of rank {work.rank} on every linear"))
    if model.draft is not None and not work.is_training:
        parts.append(_draft(model.draft, work, sharding))
    parts += _moving(model, work, sharding)
    parts.append(MemoryPart("framework", _OVERHEAD_BYTES, "assumed: context, kernels, workspaces, collectives"))
    return Memory(tuple(parts), sharding)


def _draft(draft: Model, work: Work, sharding: Sharding) -> MemoryPart:
    """Return what the draft model takes beside: its weights, and keys and values of the same tokens."""
    held = replace(work, precision=draft.precision or work_of("inference").precision)
    weights = _weights(draft, held.precision, replace(sharding, pipeline=1))
    cache = None if draft.shape is None else cache_bytes(draft.shape, held, replace(sharding, pipeline=1))
    return MemoryPart("draft model", None if cache is None else weights + cache, f"{draft.name}, with its KV cache")


def _wide(model: Model, work: Work) -> str:
    precision = work.precision
    if not precision.quantises:
        return ""
    if precision.ends is not None:
        return "; embeddings too"
    if model.shape is None:
        return "; embeddings too: its shape is not known"
    names = {"attention": "attention", "mlp": "the MLP", "expert": "experts"}
    spared = [
        names[kind] if share == 1 else f"{names[kind]} of {int(share * model.shape.layers)} layers"
        for kind, share in precision.spared
    ]
    return f"; {', '.join([*spared, 'embeddings'])} and norms in 16 bits"


def _training_parts(work: Work, kept: States) -> list[MemoryPart]:
    found = []
    if work.purpose != "full":
        found.append(MemoryPart("adapters", kept.adapters, f"rank {work.rank} on every linear"))
    copy = "moments" if work.value_bytes == 4 or work.states & {"bf16", "no_copy"} else "32-bit copy, moments"
    copy = f"{copy} in 16 bits" if "bf16" in work.states else copy
    copy = copy if work.state_bytes else "nothing is kept"
    gradients = f"{work.value_bytes} bytes for each parameter that is trained"
    if "in_backward" in work.states:
        gradients = "of one layer at a time: each is used up where it is made"
    if "offloaded" in work.states:
        gradients, copy = "in the host's memory", "in the host's memory"
    return [
        *found,
        MemoryPart("gradients", kept.gradients, gradients),
        MemoryPart("optimizer", kept.optimizer, f"{work.optimizer}: {copy}"),
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
    if shape is not None and shape.windowed_layers and shape.window < work.context:
        told += f"; {shape.windowed_layers} of {shape.layers} layers keep {shape.window:,} tokens"
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
