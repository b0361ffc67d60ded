"""Which pod has which uid. The kubelet's answers bear names alone, cgroups uids alone; this host joins them.

Three ways, the surest first: the kubelet's log directories bear both (/var/log/pods/<namespace>_<pod>_<uid>); a
process of a pod has the pod's name for its host name; and where a pod holds GPUs on which one uid alone has
processes, there is no other way.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent.attribution.run import job

_ENTRIES_MAX = 4096
_DEPTH_MAX = 4  # /kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/…-pod<uid>.slice

Pod = tuple[str, str]  # namespace and name

_LOG = re.compile(r"([^_]+)_([^_]+)_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})")
_ON_THE_WAY = re.compile(r"kube|burstable|besteffort|guaranteed")


@dataclass(frozen=True, slots=True)
class PodEvidence:
    """What the processes of one uid show: the GPUs that they hold, and their host names as far as they can be read."""

    gpus: frozenset[str]
    hostnames: frozenset[str] = frozenset()


def logged(logs: Path) -> dict[Pod, set[str]]:
    """Return the uids of each pod by the kubelet's log directories; a pod that was made anew has several."""
    found: dict[Pod, set[str]] = {}
    try:
        names = _listed(logs)
    except OSError:  # which uid a pod has is then found in another way, or not
        return {}
    for name in names:
        if match := _LOG.fullmatch(name):
            found.setdefault((match[1], match[2]), set()).add(match[3])
    return found


def living(sys: Path) -> set[str] | None:
    """Return the uids of the pods that have a cgroup, or None where the kubelet's cgroups cannot be seen from here.

    A pod that has ended loses its cgroup, while some kubelets go on listing its devices (kubernetes#119423). What
    cannot be listed may hold any pod, so that none can be said to have ended.
    """
    top = sys / "fs/cgroup"
    roots = [top, top / "unified", top / "systemd", top / "memory"]
    try:
        found = [uids for root in roots if (uids := _below(root, _DEPTH_MAX)) is not None]
    except OSError:
        return None
    return set().union(*found) if found else None


def _below(here: Path, depth: int) -> set[str] | None:
    """Return the uids below a directory, or None where nothing here is the kubelet's.

    Raises:
        OSError: a directory that is there cannot be listed.
    """
    uids: set[str] | None = None
    for name in _listed(here):
        place = here / name
        pod = job(f"0::/kubepods/{name}\n") if "pod" in name else None
        if pod is not None:
            uids = (uids or set()) | {pod.id}
        elif depth and _ON_THE_WAY.search(name) and place.is_dir():
            deeper = _below(place, depth - 1)
            uids = (uids or set()) | (deeper or set()) if deeper is not None or "kubepods" in name else uids
    return uids


def _listed(place: Path) -> list[str]:
    try:
        return [path.name for path in islice(place.iterdir(), _ENTRIES_MAX)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def pods_by_uid(
    pods: Mapping[Pod, frozenset[str]], seen: Mapping[str, PodEvidence], known: Mapping[Pod, str]
) -> dict[Pod, str]:
    """Return the uid of every pod for which it follows, from what each pod holds and what each uid's processes show.

    A uid whose processes hold a GPU that the pod does not have is another's: that of a server which many pods share.
    """
    found = {pod: uid for pod, uid in known.items() if pod in pods}
    by_name = {pod: uids for pod in pods if (uids := _named(pod, seen))}
    found |= {pod: next(iter(uids)) for pod, uids in by_name.items() if pod not in found and len(uids) == 1}
    while True:
        open_pods = [pod for pod in pods if pod not in found]
        open_uids = {uid: what for uid, what in seen.items() if uid not in found.values() and not what.hostnames}
        only = _only(pods, open_pods, open_uids)
        if not only:
            return found
        found |= only


def _named(pod: Pod, seen: Mapping[str, PodEvidence]) -> set[str]:
    # A host name has 63 characters at most; a longer pod's is cut.
    return {uid for uid, what in seen.items() if pod[1][:63].rstrip("-.") in what.hostnames}


def _only(
    pods: Mapping[Pod, frozenset[str]], open_pods: Iterable[Pod], open_uids: Mapping[str, PodEvidence]
) -> dict[Pod, str]:
    """Return the pairs in which the one can only be the other."""
    may: dict[Pod, set[str]] = {
        pod: {uid for uid, what in open_uids.items() if what.gpus and what.gpus <= pods[pod]} for pod in open_pods
    }
    for pod, uids in may.items():
        if len(uids) == 1 and sum(uids <= others for others in may.values()) == 1:
            return {pod: next(iter(uids))}
    return {}
