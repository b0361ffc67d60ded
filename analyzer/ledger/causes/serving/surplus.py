"""Which replicas of a service stand by beyond its policy, and how much of their stand-still that is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica in one window. `there_ms` is its own time; the others are sums over its GPUs."""

    run_id: str
    name: str
    there_ms: int
    gpu_ms: int
    still_ms: int
    idle_ms: int = 0  # of still_ms: in spans long enough for an abandoned GPU, without a request


@dataclass(frozen=True, slots=True)
class Excess:
    """Permille of a run's stand-still in one window that exceed its service's policy: idle for long, and the rest."""

    beyond_permille: int = 0
    idle_permille: int = 0


def excess(replicas: Sequence[Replica], needed: int, span_ms: int) -> dict[str, Excess]:
    """Return by run what of its stand-still exceeds a policy that asks for `needed` replicas throughout `span_ms`.

    The least used are surplus first, ties by run id and name. Replicas that were there for a part of the time (a
    roll-out shows both generations) count by it, so that the last one may be surplus for a part. Only stand-still is
    taken: what a surplus replica answered was work.
    """
    left_ms = sum(replica.there_ms for replica in replicas) - needed * span_ms
    beyond: dict[str, int] = {}
    idle: dict[str, int] = {}
    for replica in sorted(replicas, key=_use):
        taken_ms = min(replica.there_ms, left_ms)
        if taken_ms <= 0:
            break
        left_ms -= taken_ms
        still_ms = replica.still_ms * taken_ms // replica.there_ms
        idle_ms = min(still_ms, replica.idle_ms * taken_ms // replica.there_ms)
        beyond[replica.run_id] = beyond.get(replica.run_id, 0) + still_ms - idle_ms
        idle[replica.run_id] = idle.get(replica.run_id, 0) + idle_ms
    whole = _stood(replicas)
    return {
        run: Excess(beyond[run] * 1000 // whole[run], idle[run] * 1000 // whole[run]) for run in beyond if whole[run]
    }


def _use(replica: Replica) -> tuple[int, str, str]:
    return (replica.gpu_ms - replica.still_ms) * 1000 // max(1, replica.gpu_ms), replica.run_id, replica.name


def _stood(replicas: Iterable[Replica]) -> dict[str, int]:
    stood: dict[str, int] = {}
    for replica in replicas:
        stood[replica.run_id] = stood.get(replica.run_id, 0) + replica.still_ms
    return stood
