"""Who holds which GPU: what witnesses tell and what processes show, joined and told as edges."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from agent.attribution.gpu_process import GpuProcess
from agent.attribution.holds import Held, Meant, combined
from agent.attribution.pods import Pod, Seen, joined
from agent.attribution.providers import Witnesses
from agent.attribution.run import Place
from agent.source import Reading
from agent.sources.processes.claims import Claim
from agent.sources.processes.holdings import Holdings
from agent.sources.processes.tree import home_gpus
from agent.state_file import Remembered

_PATIENT_READINGS = 3  # at the start, for witnesses that have not answered yet


@dataclass(frozen=True, slots=True)
class Shown:
    """A process that holds a GPU, and whose it is. `at_home` is whether it is the GPU that it works on."""

    gpu_uuid: str
    claim: Claim
    at_home: bool


def shown(holders: Sequence[GpuProcess], claims: Mapping[int, Claim]) -> list[Shown]:
    """Return what the processes show that are known to be anyone's."""
    homes = home_gpus(holders)
    return [
        Shown(one.gpu_uuid, claims[one.pid], homes[one.pid] == one.gpu_uuid) for one in holders if one.pid in claims
    ]


class Register:
    """Keeps who holds what, and tells it as rows of `allocations` and `run_aliases`.

    `place` has this host's name, which pods on its own network have for theirs: it tells nothing of them.
    """

    def __init__(
        self, witnesses: Witnesses | None = None, remembered: Remembered | None = None, place: Place | None = None
    ) -> None:
        self.place = place or Place("")
        self._witnesses = witnesses or Witnesses()
        self._holdings = Holdings(remembered)
        self._readings = 0

    def update(self, processes: Iterable[Shown], now: int, names: Mapping[str, Meant] | None = None) -> Reading:
        """Return the edges since the last update. `now` is in microseconds UTC, `names` what else names stand for.

        At the very start witnesses may need a moment: until they have been heard, nothing is said to be given back.
        """
        told = self._witnesses.told().held
        self._readings += 1
        if self._witnesses.pending and self._readings <= _PATIENT_READINGS:
            return {"allocations": []}
        seen, aliases = list(processes), self._witnesses.aliases
        aliases.learn({**_jobs(seen), **(names or {})})
        aliases.learn(_pods(told, _by_uid(seen, self.place.node), aliases.runs))
        held = combined([*told, *map(_held, seen)], aliases.runs)
        rows: Reading = {"allocations": self._holdings.update(held.values(), now, self._witnesses.awaited)}
        named = aliases.rows()
        return {**rows, "run_aliases": named} if named else rows


def _held(one: Shown) -> Held:
    known = one.claim.attribution
    return Held(one.gpu_uuid, known if one.at_home else replace(known, rank=None))


def _jobs(seen: Iterable[Shown]) -> dict[str, Meant]:
    """Return the job numbers of processes whose environment tells another name of the job."""
    return {
        one.claim.plain_run_id: Meant(one.claim.attribution.run_id)
        for one in seen
        if one.claim.plain_run_id not in (None, one.claim.attribution.run_id)
    }


def _pods(told: Iterable[Held], seen: Mapping[str, Seen], runs: Mapping[str, str]) -> dict[str, Meant]:
    """Return the uids of pods that the kubelet knows by name, as far as they follow from the processes."""
    aliases: dict[Pod, str] = {}
    gpus: dict[Pod, frozenset[str]] = {}
    for one in told:
        if one.attribution.scheduler == "kubernetes" and one.attribution.member:
            namespace, pod, _ = one.attribution.member.split("/", 2)
            aliases[namespace, pod] = one.attribution.run_id
            gpus[namespace, pod] = gpus.get((namespace, pod), frozenset()) | {one.gpu_uuid}
    known = {pod: runs[alias] for pod, alias in aliases.items() if alias in runs}
    found = joined(gpus, seen, known)
    return {aliases[pod]: Meant(run_id, "/".join(pod)) for pod, run_id in found.items()}


def _by_uid(seen: Iterable[Shown], node: str) -> dict[str, Seen]:
    """Return what the processes of each pod show; a pod is known by its run here, which ends in its uid."""
    found: dict[str, Seen] = {}
    for one in seen:
        known = one.claim.attribution
        if known.scheduler == "cgroup" and known.run_id.startswith("kubernetes/"):
            before = found.get(known.run_id, Seen(frozenset()))
            name = one.claim.hostname
            hostnames = frozenset({name} if name and name != node else ())
            found[known.run_id] = Seen(before.gpus | {one.gpu_uuid}, before.hostnames | hostnames)
    return found
