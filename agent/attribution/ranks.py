"""Ranks that a launcher started without a scheduler: torchrun, deepspeed, accelerate, mpirun.

Each rank is a process of its own, and together they are one run. torchrun tells all of them the id of the rendezvous
(TORCHELASTIC_RUN_ID, from --rdzv-id, drawn at random by --standalone), Open MPI the name of the job (PMIX_NAMESPACE):
with these a user's run is one across hosts. Where there is none ("none" is torchrun's default), the ranks below one
parent are one run on this host. Source: torch.distributed.elastic, "Environment Variables"; mpirun(1).
"""

from collections.abc import Mapping

from agent.attribution.declared import users_run_id
from agent.attribution.environment import is_number, number

_NO_RENDEZVOUS = ("", "none")
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")  # the launcher's own before that of what it runs within
_INIT = 1  # ranks whose launcher is gone hang below it, of whatever run


def rank(environment: Mapping[str, str]) -> int | None:
    """Return the position of a process among the ranks of its run, from 0, or None where it is no rank."""
    return next((found for name in _RANKS if (found := number(environment.get(name, ""))) is not None), None)


def ranks_run_id(
    environment: Mapping[str, str], node: str, cluster: str, uid: int, parent: tuple[int, int] | None
) -> str | None:
    """Return the run that a rank belongs to, or None where the process is no rank or nothing tells its run.

    `parent` is the launcher's pid and start, None where it is not known.
    """
    if is_number(environment.get("RANK", "")) and is_number(environment.get("WORLD_SIZE", "")):
        return _torch(environment, node, cluster, uid, parent)
    if is_number(environment.get("OMPI_COMM_WORLD_RANK", "")):
        namespace = environment.get("PMIX_NAMESPACE", "")
        return users_run_id(cluster, uid, f"mpi-{namespace}") if namespace else _below("mpi", node, uid, parent)
    return None


def _torch(
    environment: Mapping[str, str], node: str, cluster: str, uid: int, parent: tuple[int, int] | None
) -> str | None:
    rendezvous = environment.get("TORCHELASTIC_RUN_ID", "")
    if rendezvous not in _NO_RENDEZVOUS:
        return users_run_id(cluster, uid, f"torchrun-{rendezvous}")
    if rendezvous:
        return _below("torchrun", node, uid, parent)
    port = environment.get("MASTER_PORT", "")  # tells launches apart that one shell made
    return _below("ranks", node, uid, parent, f"-{port}" if is_number(port) else "")


def _below(launcher: str, node: str, uid: int, parent: tuple[int, int] | None, rest: str = "") -> str | None:
    if parent is None or parent[0] <= _INIT:
        return None
    return users_run_id(node, uid, f"{launcher}-{parent[0]}.{parent[1]}{rest}")
