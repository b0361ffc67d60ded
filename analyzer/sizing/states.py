"""What is kept of a model on each GPU whatever the batch: weights, gradients, the optimizer's states. Bytes.

Adam in mixed precision is 16 bytes a parameter: 2 weights, 2 gradients, 4 for the 32-bit copy, 4 + 4 for the moments.
Source: Rajbhandari et al. 2020 (ZeRO), section 3.1, and figure 1 for what each stage divides.
"""

from dataclasses import dataclass
from fractions import Fraction

from analyzer.sizing.model import Model
from analyzer.sizing.precision import WIDE_BITS
from analyzer.sizing.shape import Shape
from analyzer.sizing.sharding import Sharding
from analyzer.sizing.work import COPY_BYTES, MOMENT_BYTES, Work

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
