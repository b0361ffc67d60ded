"""Who holds which GPU: what providers tell and what processes show, joined and told as edges."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.attribution.devices import GpuProcess, Holding
from agent.attribution.kubelet import Pod, PodEvidence, pods_by_uid
from agent.attribution.providers import PRECEDENCE, GpuHold, HolderProviders, Meant, combined
from agent.attribution.run import Attribution, HostIdentity
from agent.errors import SourceError
from agent.files import StateFile
from agent.procfs import boot_id
from agent.source import Reading, Row
from agent.sources.claims import Claim
from agent.sources.process_table import Stat, home_gpus, read_stat

_HOLDERS_SECTION = "holders"
# Who holds GPUs while the driver cannot say it: whom it named last, as long as those processes live.
#
# A list that cannot be read, a GPU that is lost and a driver that is silent are no word on who holds what: the process
# that was there has given nothing back. It is known by pid and start, since a pid is used again, and across a restart
# of the agent by the boot too.
_ENDED = ("Z", "X")  # states in /proc/<pid>/stat of a process that holds nothing any more


@dataclass(frozen=True, slots=True)
class _Seen:
    process: GpuProcess
    started_ticks: int


class Holders:
    """Remembers who held which GPU, and takes the driver's word where it has one."""

    def __init__(self, proc: Path, state_file: StateFile | None = None) -> None:
        self._proc = proc
        self._state_file = state_file or StateFile(None)
        self._boot = boot_id(proc)
        self._seen = _kept_holders(self._state_file.section(_HOLDERS_SECTION), self._boot)

    @property
    def are_known(self) -> bool:
        """Whether anybody was ever named that may still hold a GPU."""
        return bool(self._seen)

    def asserted(self, told: Holding) -> list[GpuProcess]:
        """Return who holds a GPU by this word, and then who held one of which it says nothing."""
        silent = told.unanswered(one.process for one in self._seen)
        return [*told.processes, *(replace(one, sm_utilization_ratio=None, is_listed=False) for one in silent)]

    def seen_first(self, asserted: Sequence[GpuProcess]) -> list[GpuProcess]:
        """Return the same in an order in which nobody who comes takes the place of one who was there."""
        seen = {(one.process.gpu_uuid, one.process.pid) for one in self._seen}
        return sorted(asserted, key=lambda one: (one.gpu_uuid, one.pid) not in seen)

    def look_for_blindness(self, processes: Mapping[int, Stat]) -> None:
        """See to it that who is missing in this pass over /proc has ended.

        Raises:
            SourceError: one that was seen before is there still, and cannot be read.
        """
        for one in self._seen:
            pid = one.process.pid
            here = self._proc / str(pid)
            if pid in processes or not here.exists():
                continue
            stat = read_stat(self._proc, pid)  # of a thread of somebody else's, where the number is used again
            if stat is None or stat.started_ticks == one.started_ticks:
                raise SourceError(f"{here}/stat cannot be read now; GPU holders stay unchanged until it can")

    def living(self, asserted: Sequence[GpuProcess], processes: Mapping[int, Stat]) -> list[GpuProcess]:
        """Return the same without those of an earlier word that have ended, and remember who is there.

        Whom the driver lists now it knows better than this host's /proc, which may not show everybody.
        """
        starts = {(one.process.gpu_uuid, one.process.pid): one.started_ticks for one in self._seen}
        found = [
            one for one in asserted if one.is_listed or _is_still(processes.get(one.pid), starts[one.gpu_uuid, one.pid])
        ]
        self._seen = [_Seen(one, processes[one.pid].started_ticks) for one in found if one.pid in processes]
        self._keep()
        return found

    def forget(self) -> None:
        """Note that nobody holds a GPU."""
        self._seen = []
        self._keep()

    def _keep(self) -> None:
        held = [
            [one.process.gpu_uuid, one.process.pid, one.started_ticks, one.process.memory_used_bytes]
            for one in self._seen
        ]
        self._state_file.keep(_HOLDERS_SECTION, {"boot": self._boot, "held": held})


def _is_still(stat: Stat | None, started_ticks: int) -> bool:
    return stat is not None and stat.started_ticks == started_ticks and stat.state not in _ENDED


def _kept_holders(section: Mapping[str, Any], boot: str | None) -> list[_Seen]:
    """Return whom an earlier agent of this boot saw; what it did not write so is passed over."""
    entries = section.get("held")
    if boot is None or section.get("boot") != boot or not isinstance(entries, list):
        return []
    return [seen for entry in entries if (seen := _believed_holder(entry)) is not None]


def _believed_holder(entry: object) -> _Seen | None:
    match entry:
        case [str(gpu_uuid), int(pid), int(started_ticks), int() | None as memory_used_bytes]:
            return _Seen(GpuProcess(gpu_uuid, pid, memory_used_bytes), started_ticks)
    return None


HOLDINGS_SECTION = "holdings"

# When a run takes a GPU and gives it back: the edges of what is held, across restarts of the agent.
_HoldingKey = tuple[str, str, int]  # run id, the GPU's UUID, and attempt


class Holdings:
    """Remembers which run holds which GPU, and tells the changes as rows of `allocations`.

    What was open when an agent ended is told again by the next one: as still open, from when it was taken, or as
    given back when it was last seen held. As long as the word of who told it is awaited it is open.
    """

    def __init__(self, state_file: StateFile | None = None) -> None:
        self._state_file = state_file or StateFile(None)
        self._open, self._seen_at = _kept_holdings(self._state_file.section(HOLDINGS_SECTION))
        self._retell = True
        self._unconfirmed = set(self._open)  # what only an earlier agent saw

    def update(self, held: Iterable[GpuHold], now: int, awaited: Collection[str] = ()) -> list[Row]:
        """Return a row for each (run, GPU) that came, went, or of which more is known. `now` is in microseconds UTC.

        The edges are as coarse as the readings; where a scheduler knows better, its own rows come first. `awaited` are
        the authorities who have not spoken since this agent began.
        """
        holds = {_key(one): one for one in held}
        unseen = {key: self._open[key][1] for key in self._unconfirmed - holds.keys()}
        waits = {key: one for key, one in unseen.items() if one.attribution.scheduler in awaited}
        holds |= waits
        went = {key: at for key, at in self._open.items() if key not in holds}
        last = now if self._seen_at is None else min(now, self._seen_at)  # when the earlier agent looked
        rows = [_row(one, since, max(since, last if key in unseen else now)) for key, (since, one) in went.items()]
        self._unconfirmed = set(waits)
        before = self._open
        self._open = {key: (before[key][0] if key in before else now, one) for key, one in holds.items()}
        rows += [
            _row(one, since, None)
            for key, (since, one) in self._open.items()
            if self._retell or key not in before or before[key][1] != one
        ]
        self._retell = False
        self._state_file.keep(HOLDINGS_SECTION, _to_keep(self._open, now))
        return rows


def authorities(state_file: StateFile) -> frozenset[str]:
    """Return whose word stands behind what was held when the agent before this one ended."""
    held, _ = _kept_holdings(state_file.section(HOLDINGS_SECTION))
    return frozenset(one.attribution.scheduler for _, one in held.values())


def _key(one: GpuHold) -> _HoldingKey:
    return (one.attribution.run_id, one.gpu_uuid, one.attribution.attempt or 0)


def _row(one: GpuHold, since: int, until: int | None) -> Row:
    known = one.attribution
    return {
        "run_id": known.run_id,
        "gpu_uuid": one.gpu_uuid,
        "attempt": known.attempt,
        "member": known.member,
        "rank": known.rank,
        "gpu_fraction": one.fraction,
        "started_at": since,
        "ended_at": until,
        "scheduler": known.scheduler,
        "user": known.owner,
        "labels": json.dumps(known.labels, sort_keys=True) if known.labels else None,
    }


def _to_keep(held: Mapping[_HoldingKey, tuple[int, GpuHold]], now: int) -> dict[str, Any]:
    return {"seen_at": now, "open": [{**_row(one, since, None)} for since, one in held.values()]}


def _kept_holdings(section: Mapping[str, Any]) -> tuple[dict[_HoldingKey, tuple[int, GpuHold]], int | None]:
    """Return what an earlier agent left open, and when it last looked; what it did not write so is passed over."""
    seen_at, rows = section.get("seen_at"), section.get("open")
    if not isinstance(seen_at, int) or not isinstance(rows, list):
        return {}, None
    found: dict[_HoldingKey, tuple[int, GpuHold]] = {}
    for row in rows:
        try:
            one, since = _hold_of_row(row), int(row["started_at"])
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
        found[_key(one)] = (since, one)
    return found, seen_at


def _hold_of_row(row: Mapping[str, Any]) -> GpuHold:
    if row["scheduler"] not in PRECEDENCE:
        raise ValueError(f"no authority with the name {row['scheduler']!r}")
    attribution = Attribution(
        run_id=str(row["run_id"]),
        scheduler=row["scheduler"],
        attempt=None if row["attempt"] is None else int(row["attempt"]),
        owner=row["user"],
        member=row["member"],
        rank=row["rank"],
        labels=dict(json.loads(row["labels"])) if row["labels"] else {},
    )
    return GpuHold(str(row["gpu_uuid"]), attribution, row["gpu_fraction"])


_PATIENT_READINGS = 3  # at the start, for providers that have not answered yet


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


HIDDEN = "hidden"  # in place of a process: there is one, and who it is cannot be seen


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

    def update(
        self,
        processes: Iterable[GpuUser],
        now: int,
        names: Mapping[str, Meant] | None = None,
        hidden: Collection[str] = (),
    ) -> Reading:
        """Return the edges since the last update. `now` is in microseconds UTC, `names` what else names stand for.

        GPUs with a holder whom nobody can see, `hidden`, are held by nobody who is known, and not by nobody.
        At the very start providers may need a moment: until they have been heard, nothing is said to be given back.
        """
        told = self._providers.told().held
        self._readings += 1
        if self._providers.pending and self._readings <= _PATIENT_READINGS:
            return {"allocations": []}
        seen, aliases = list(processes), self._providers.aliases
        aliases.learn({**_jobs(seen), **(names or {})})
        aliases.learn(_pods(told, _by_uid(seen, self.place.node), aliases.runs))
        known = [*told, *map(_process_hold, seen)]
        nobody_known = Attribution(f"process/{self.place.node}/{HIDDEN}", "process")
        unknown = [GpuHold(gpu, nobody_known) for gpu in hidden if all(gpu != one.gpu_uuid for one in known)]
        held = combined([*known, *unknown], aliases.runs)
        rows: Reading = {"allocations": self._holdings.update(held.values(), now, self._providers.awaited)}
        named = aliases.rows()
        return {**rows, "run_aliases": named} if named else rows


def _process_hold(one: GpuUser) -> GpuHold:
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
