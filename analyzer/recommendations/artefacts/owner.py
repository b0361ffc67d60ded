"""Which scheduler a run belongs to: it is given the lines of its own, and of no other."""

from collections.abc import Callable

from analyzer.recommendations.recommendation import Artefact
from analyzer.recommendations.site import Placed


def scheduler(run_id: str) -> str:
    """Return the scheduler that named a run: slurm, kubernetes, ray, declared or process."""
    return run_id.split("/", 1)[0]


def native(run_id: str) -> str:
    """Return what its own scheduler calls a run."""
    return run_id.rsplit("/", 1)[-1]


def for_scheduler(
    placed: Placed, slurm: Callable[[], Artefact], kubernetes: Callable[[], Artefact]
) -> tuple[Artefact, ...]:
    """Return the text for the run's own scheduler; none for a run that has neither."""
    own = {"slurm": slurm, "kubernetes": kubernetes}.get(scheduler(placed.run_id))
    return (own(),) if own else ()
