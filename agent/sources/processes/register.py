"""Who holds which GPU: what witnesses tell and what processes show, joined and told as edges."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from agent.attribution.gpu_process import GpuProcess
from agent.attribution.holds import GpuHold, Meant, combined
from agent.attribution.pods import Pod, PodEvidence, pods_by_uid
from agent.attribution.providers import HolderProviders
from agent.attribution.run import HostIdentity
from agent.source import Reading
from agent.sources.processes.claims import Claim
from agent.sources.processes.holdings import Holdings
from agent.sources.processes.tree import home_gpus
from agent.state_file import StateFile

_PATIENT_READINGS = 3  # at the start, for witnesses that have not answered yet


@dataclass(frozen=True, slots=True)
class GpuUser:
    """A process that holds a GPU, and whose it is. `at_home` is whether it is the GPU that it works on."""

    gpu_uuid: str
    claim: Claim
    at_home: bool


def gpu_processes(holders: Sequence[GpuProcess], claims: Mapping[int, Claim]) -> list[GpuUser]:
    """Return what the processes show that are known to be anyone's."""
    homes = home_gpus(holders)
    return [
        GpuUser(one.gpu_uuid, claims[one.pid], homes[one.pid] == one.gpu_uuid) for one in holders if one.pid in claims
    ]


class Register:
    """Keeps who holds what, and tells it as rows of `allocations` and `run_aliases`.

    `place` has this host's name, which pods on its own network have for theirs: it tells nothing of them.
    """

    def __init__(
        self,
        providers: HolderProviders | None = None,
        state_file: StateFile | None = None,
        place: HostIdentity | None = None,
    ) -> None:
        self.place = place or HostIdentity("")
        self._providers = providers or HolderProviders()
        self._holdings = Holdings(state_file)
        self._readings = 0

    def update(self, processes: Iterable[GpuUser], now: int, names: Mapping[str, Meant] | None = None) -> Reading:
        """Return the edges since the last update. `now` is in microseconds UTC, `names` what else names stand for.

        At the very start witnesses may need a moment: until they have been heard, nothing is said to be given back.
        """
        told = self._providers.told().held
        self._readings += 1
        if self._providers.pending and self._readings <= _PATIENT_READINGS:
            return {"allocations": []}
        seen, aliases = list(processes), self._providers.aliases
        aliases.learn({**_jobs(seen), **(names or {})})
        aliases.learn(_pods(told, _by_uid(seen, self.place.node), aliases.runs))
        held = combined([*told, *map(_held, seen)], aliases.runs)
        rows: Reading = {"allocations": self._holdings.update(held.values(), now, self._providers.awaited)}
        named = aliases.rows()
        return {**rows, "run_aliases": named} if named else rows


def _held(one: GpuUser) -> GpuHold:
    known = one.claim.attribution
    return GpuHold(one.gpu_uuid, known if one.at_home else replace(known, rank=None))


def _jobs(seen: Iterable[GpuUser]) -> dict[str, Meant]:
    """Return the job numbers of processes whose environment tells another name of the job."""
    return {
        one.claim.plain_run_id: Meant(one.claim.attribution.run_id)
        for one in seen
        if one.claim.plain_run_id not in (None, one.claim.attribution.run_id)
    }


def _pods(told: Iterable[GpuHold], seen: Mapping[str, PodEvidence], runs: Mapping[str, str]) -> dict[str, Meant]:
    """Return the uids of pods that the kubelet knows by name, as far as they follow from the processes."""
    aliases: dict[Pod, str] = {}
    gpus: dict[Pod, frozenset[str]] = {}
    for one in told:
        if one.attribution.scheduler == "kubernetes" and one.attribution.member:
            namespace, pod, _ = one.attribution.member.split("/", 2)
            aliases[namespace, pod] = one.attribution.run_id
            gpus[namespace, pod] = gpus.get((namespace, pod), frozenset()) | {one.gpu_uuid}
    known = {pod: runs[alias] for pod, alias in aliases.items() if alias in runs}
    found = pods_by_uid(gpus, seen, known)
    return {aliases[pod]: Meant(run_id, "/".join(pod)) for pod, run_id in found.items()}


def _by_uid(seen: Iterable[GpuUser], node: str) -> dict[str, PodEvidence]:
    """Return what the processes of each pod show; a pod is known by its run here, which ends in its uid."""
    found: dict[str, PodEvidence] = {}
    for one in seen:
        known = one.claim.attribution
        if known.scheduler == "cgroup" and known.run_id.startswith("kubernetes/"):
            before = found.get(known.run_id, PodEvidence(frozenset()))
            name = one.claim.hostname
            hostnames = frozenset({name} if name and name != node else ())
            found[known.run_id] = PodEvidence(before.gpus | {one.gpu_uuid}, before.hostnames | hostnames)
    return found
