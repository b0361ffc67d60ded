"""What the model of a run takes at the least on each of its GPUs: for whoever would put it on smaller ones."""

from dataclasses import dataclass

from analyzer.sizing.model import find_model
from analyzer.sizing.sharding import Sharding
from analyzer.sizing.states import states, weight_bytes
from analyzer.sizing.work import Purpose, work_of

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
