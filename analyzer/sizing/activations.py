"""What a step keeps for its way back, what a prompt takes on its way through, and keys and values that stay. Bytes.

Training, one layer, each GPU of `tensor` that split its matrices. Source: Korthikanti et al. 2022, Reducing Activation
Recomputation in Large Transformer Models, section 4.1 and table 2, with the widths of the model at hand in place of the
paper's (an MLP of 4 h with GELU, as many key/value heads as heads, dropout), for which they come to its
s b h (10 + 24/t + 5 a s / (h t)).

Approximated: nothing is kept twice, no allocator rounds; recomputing `none` has the paper's five bytes for each score
of attention; a pipeline's first stage holds as many layers' batches as there are layers, as with 1F1B (the paper's
equation 5); a mixture of experts sends its tokens to all experts evenly.
"""

from analyzer.sizing.shape import Shape
from analyzer.sizing.sharding import Sharding
from analyzer.sizing.work import Work

_SCORE_BYTES = 5  # softmax 2, its dropout's mask 1 and output 2
_LOGIT_BYTES = 4  # the loss is computed in 32 bits
_PROMPT_TOKENS = 8192  # a longer prompt goes through in pieces of so many tokens: vLLM's default for chunked prefill


def layer_bytes(shape: Shape, work: Work, tensor: int = 1) -> int:
    """Return what one layer keeps of a batch, with what attention's scores take unless they are recomputed."""
    linear = _replicated(shape) + _divided(shape, tensor)
    scores = _SCORE_BYTES * shape.heads * work.context**2 * work.batch if work.recompute == "none" else 0
    return (linear * work.tokens + -(-scores // tensor)) * work.value_bytes // 2


def training_bytes(shape: Shape, work: Work, sharding: Sharding) -> int:
    """Return what all layers keep, and the outputs: final norm, output layer's input, logits: 4 s b (h + v)."""
    tensor = sharding.tensor
    outputs = _LOGIT_BYTES * work.tokens * (shape.hidden + -(-shape.vocabulary // tensor))
    if work.recompute != "full":
        return shape.layers * layer_bytes(shape, work, tensor) + outputs
    # Each layer's input stays, on every GPU; one layer at a time is computed anew.
    inputs = shape.layers * work.value_bytes * shape.hidden * work.tokens
    return min(inputs + layer_bytes(shape, work, tensor), shape.layers * layer_bytes(shape, work, tensor)) + outputs


def prompt_bytes(shape: Shape, work: Work, sharding: Sharding) -> int:
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
