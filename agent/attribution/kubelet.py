"""The kubelet of this host: which pod holds which GPU, with or without a process on it.

It says so on a socket that root alone may open unless the operator lets the agent's group in (docs/attribution.md).
gRPC is an extra (requirements-kubernetes.lock) and loaded only where there is a kubelet.
"""

import logging
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

from agent.attribution.devices import FULL_UUID, Devices
from agent.attribution.evidence import plain_name
from agent.attribution.providers import GpuHold, Meant, ProviderReport
from agent.attribution.run import Attribution, Authority, job
from agent.errors import SourceError

# Which pod has which uid. The kubelet's answers bear names alone, cgroups uids alone; this host joins them.
#
# Three ways, the surest first: the kubelet's log directories bear both (/var/log/pods/<namespace>_<pod>_<uid>); a
# process of a pod has the pod's name for its host name; and where a pod holds GPUs on which one uid alone has
# processes, there is no other way.
_ENTRIES_MAX = 4096
_DEPTH_MAX = 4  # /kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/…-pod<uid>.slice

Pod = tuple[str, str]  # namespace and name

_LOG_DIRECTORY = re.compile(r"([^_]+)_([^_]+)_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})")
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
        names = _listed_names(logs)
    except OSError:  # which uid a pod has is then found in another way, or not
        return {}
    for name in names:
        if match := _LOG_DIRECTORY.fullmatch(name):
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
    for name in _listed_names(here):
        place = here / name
        pod = job(f"0::/kubepods/{name}\n") if "pod" in name else None
        if pod is not None:
            uids = (uids or set()) | {pod.id}
        elif depth and _ON_THE_WAY.search(name) and place.is_dir():
            deeper = _below(place, depth - 1)
            uids = (uids or set()) | (deeper or set()) if deeper is not None or "kubepods" in name else uids
    return uids


def _listed_names(place: Path) -> list[str]:
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


# Protocol Buffers on the wire, as far as a reader needs it: the fields of one message.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: whole numbers for varints, bytes for all others.

    Raises:
        ValueError: this is no message.

    Source: protobuf.dev, "Encoding".
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        else:
            length = {_FIXED64: 8, _FIXED32: 4}.get(kind, len(message) + 1)
        if number == 0 or at + length > len(message):
            raise ValueError(f"byte {at} of a message of {len(message)} does not start a field")
        yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(message[at : at + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError(f"byte {at} of a message of {len(message)} does not start a number")


# What a kubelet's PodResources answers say: which container holds which devices.
_PODS_MAX = 4096
_DEVICES_MAX = 65_536  # of one answer; some plugins hand out memory by the GiB or MiB. With more parts are unknown

# Where several pods share a GPU. NVIDIA's device plugin writes `<uuid>::3`, HAMi and Volcano `<uuid>-3`, Aliyun
# `<uuid>-_-3`, GKE `nvidia0/vgpu3`: after a full UUID, whatever follows is a part of it.
_REPLICA = re.compile(r"::\d+$|/vgpu\d+$")
_GKE = re.compile(r"nvidia(\d+)(?:/gi(\d+))?")
_OLD_MIG = re.compile(r"MIG-(GPU-[^/]+)/(\d+)/\d+")  # drivers before 470
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z-]{4,64}")
# Resources whose devices are GPUs of this host's driver, or parts of them; cards given to virtual machines are not.
_GPUS = re.compile(r"nvidia\.com/(?:gpu|mig-|.*\.shared$)")
_DRIVER = "gpu.nvidia.com"  # of resource claims; those of others are network cards and the like


@dataclass(frozen=True, slots=True)
class Container:
    """The devices of one container. `claims` counts GPUs held through Dynamic Resource Allocation, by other names.

    `gpu_ids` are the ids of those that are GPUs by what their resource is called.
    """

    namespace: str
    pod: str
    name: str
    device_ids: tuple[str, ...]
    claims: int = 0
    gpu_ids: frozenset[str] = frozenset()


def containers(list_response: bytes) -> list[Container]:
    """Return the containers with devices of a ListPodResourcesResponse, v1.

    Raises:
        ValueError: this is no such message.

    Source: k8s.io/kubelet, pkg/apis/podresources/v1/api.proto.
    """
    found: list[Container] = []
    for pod in _messages(list_response, 1):
        if len(found) < _PODS_MAX:
            name, namespace = _text(pod, 1), _text(pod, 2)
            found += [_container(namespace, name, message) for message in _messages(pod, 3)]
    return [one for one in found if one.device_ids or one.claims]


def allocatable(response: bytes) -> list[str]:
    """Return the ids of all devices of an AllocatableResourcesResponse, v1; none where they are too many.

    Raises:
        ValueError: this is no such message.
    """
    ids = (device_id for devices in _messages(response, 1) for device_id in _texts(devices, 2))
    found = list(islice(ids, _DEVICES_MAX + 1))
    return found if len(found) <= _DEVICES_MAX else []  # a part of them would pass for all the parts that there are


def replicas(allocatable_ids: Iterable[str], devices: Devices) -> dict[str, int]:
    """Return in how many parts each shared GPU is handed out, by the id that its parts have in common."""
    pairs = ((device_id, shared(device_id, devices)) for device_id in dict.fromkeys(allocatable_ids))
    return Counter(of for device_id, of in pairs if of != device_id)


def shared(device_id: str, devices: Devices) -> str:
    """Return the id of the GPU that this id is a part of; of a whole GPU its own."""
    if (listed := devices.beginning(device_id)) is not None:
        return listed
    found = FULL_UUID.match(device_id)
    return found[0] if found else _REPLICA.sub("", device_id)


def unit(device_id: str, devices: Devices) -> str | None:
    """Return the UUID of the GPU or MIG instance that a device id stands for, or None where it is not one of NVIDIA's.

    A UUID that the driver does not list is one all the same: a pod still holds a GPU that is off the bus.
    """
    name = shared(device_id, devices)
    if found := _GKE.fullmatch(name):
        return devices.by_minor(int(found[1]), int(found[2]) if found[2] else None)
    if found := _OLD_MIG.fullmatch(name):
        return devices.instance_of(found[1], int(found[2]))
    return name if _UUID.fullmatch(name) else None


def _container(namespace: str, pod: str, message: bytes) -> Container:
    held = [(_text(devices, 1), tuple(_texts(devices, 2))) for devices in _messages(message, 2)]
    ids = tuple(device_id for _, each in held for device_id in each)
    gpu_ids = frozenset(device_id for resource, each in held if _GPUS.match(resource) for device_id in each)
    claimed = (device for resource in _messages(message, 5) for device in _messages(resource, 4))
    claims = sum(_text(device, 2) in ("", _DRIVER) for device in claimed)
    return Container(namespace, pod, _text(message, 1), ids[:_DEVICES_MAX], claims, gpu_ids)


def _messages(message: bytes, number: int) -> Iterator[bytes]:
    return (value for field, value in fields(message) if field == number and isinstance(value, bytes))


def _texts(message: bytes, number: int) -> Iterator[str]:
    return (value.decode("utf-8", "replace") for value in _messages(message, number))


def _text(message: bytes, number: int) -> str:
    return next(_texts(message, number), "")


_LOG = logging.getLogger(__name__)
_SERVICE = "/v1.PodResourcesLister/"
_PERIOD_SECONDS = 15.0
_ANSWER_SECONDS = 5.0  # for the kubelet, on a thread that nobody waits for
_ALLOCATABLE_SECONDS = 300.0  # between two questions for what does not change while the device plugin runs
_ANSWER_BYTES_MAX = 16 * 2**20


class Kubelet:
    """Asks a kubelet for its pods' GPUs. Pods are told by name, `kubernetes/<cluster>/<namespace>.<pod>`.

    `was_there` is whether an agent before this one heard it: a socket that is missing is then a kubelet that restarts.
    `uid_of` is what else is known of the uids behind such names: a pod that has ended is then not believed to hold
    anything. `claims` counts the devices of Dynamic Resource Allocation in the last answer, whose names only the
    cluster can resolve.
    """

    name = "kubelet"
    authority: Authority = "kubernetes"
    period_seconds = _PERIOD_SECONDS

    def __init__(
        self,
        socket: Path,
        cluster: str,
        devices: Callable[[], Devices],
        uid_of: Callable[[str], str | None] = lambda _: None,
        sys: Path = Path("/sys"),
        logs: Path = Path("/var/log/pods"),
        answer_seconds: float = _ANSWER_SECONDS,
        seconds: Callable[[], float] = time.monotonic,
        *,
        was_there: bool = False,
    ) -> None:
        self.claims = 0
        self._socket = socket
        self._cluster = cluster
        self._devices = devices
        self._uid_of = uid_of
        self._sys = sys
        self._logs = logs
        self._answer_seconds = answer_seconds
        self._seconds = seconds
        self._channel: Any = None
        self._was_there = was_there
        self._replicas: Mapping[str, int] = {}
        self._replicas_at: float | None = None

    def read(self) -> ProviderReport | None:
        """Return who holds what, or None where there has never been a kubelet.

        Raises:
            SourceError: it does not answer, or not in its language; grpcio is missing; the socket may not be opened.
        """
        if not self._is_there():
            return None
        try:
            listed = containers(self._ask("List"))
            if self._replicas_at is None or self._seconds() - self._replicas_at >= _ALLOCATABLE_SECONDS:
                self._look_for_replicas()
        except ValueError as error:
            raise SourceError(f"the kubelet at {self._socket} answered in an unknown format: {error}") from error
        self._count_claims(sum(one.claims for one in listed))
        return self._told(listed)

    def close(self) -> None:
        """Give the connection back."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _is_there(self) -> bool:
        try:
            there = stat.S_ISSOCK(self._socket.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            there = False
        except OSError as error:
            raise SourceError(f"{self._socket} cannot be accessed ({error}); give the agent's group access") from error
        if not there and self._was_there:
            self.close()
            raise SourceError(f"the kubelet's socket {self._socket} is gone")
        self._was_there = there
        return there

    def _ask(self, method: str) -> bytes:
        grpc = _grpc()
        if self._channel is None:
            options = [("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", _ANSWER_BYTES_MAX)]
            self._channel = grpc.insecure_channel(f"unix://{self._socket.absolute()}", options=options)
        try:
            answer: bytes = self._channel.unary_unary(_SERVICE + method)(b"", timeout=self._answer_seconds)
        except grpc.RpcError as error:
            self.close()  # a connection to a kubelet that was restarted is of no use, and a new one costs nothing
            code = error.code().name.lower().replace("_", " ")
            raise SourceError(f"the kubelet at {self._socket} is not responding: {code}, {error.details()}") from error
        return answer

    def _look_for_replicas(self) -> None:
        """Learn in how many parts GPUs are shared. Kubelets before 1.23 do not say: the parts are then unknown."""
        self._replicas_at = self._seconds()
        try:
            self._replicas = replicas(allocatable(self._ask("GetAllocatableResources")), self._devices())
        except SourceError as error:
            _LOG.info("the number of shares per GPU is not known: %s", error)

    def _count_claims(self, claims: int) -> None:
        if claims and not self.claims:
            _LOG.warning("%d devices are held by resource claims; only the cluster knows which GPUs those are", claims)
        self.claims = claims

    def _told(self, listed: Iterable[Container]) -> ProviderReport:
        living_uids, uids = living(self._sys), logged(self._logs)
        held: list[GpuHold] = []
        names: dict[str, Meant] = {}
        unnamed, devices = 0, self._devices()
        for one in listed:
            pod, alias = (one.namespace, one.pod), _pod_run_id(self._cluster, one.namespace, one.pod)
            uid = _uid(uids.get(pod, set()), living_uids) or self._uid_of(alias)
            if uid is not None and living_uids is not None and uid not in living_uids:
                continue  # it has ended, and is listed all the same
            found = self._held(one, alias)
            held += found
            unnamed += sum(unit(device_id, devices) is None for device_id in one.gpu_ids)
            if uid is not None and found:
                names[alias] = Meant(f"kubernetes/{self._cluster}/{uid}", f"{one.namespace}/{one.pod}")
        unread = {
            "devices held by resource claims: only the cluster knows which GPUs those are": self.claims,
            "device ids of pods name no GPU of this host: who holds which is not known": unnamed,
        }
        return ProviderReport(tuple(held), names, unread)

    def _held(self, one: Container, run_id: str) -> list[GpuHold]:
        devices, parts = self._devices(), dict[str, list[str]]()
        for device_id in one.device_ids:
            if (uuid := unit(device_id, devices)) is not None:
                parts.setdefault(uuid, []).append(device_id)
        attribution = Attribution(run_id, "kubernetes", member=f"{one.namespace}/{one.pod}/{one.name}")
        return [GpuHold(uuid, attribution, self._fraction(ids, devices)) for uuid, ids in parts.items()]

    def _fraction(self, ids: list[str], devices: Devices) -> float | None:
        """Return the part of a GPU that these ids of it are, None where it is not known, or one is the whole GPU."""
        of = shared(ids[0], devices)
        whole = self._replicas.get(of, 0)
        return min(1.0, len(ids) / whole) if whole > 1 and of not in ids and len(ids) < _DEVICES_MAX else None


def _pod_run_id(cluster: str, namespace: str, pod: str) -> str:
    """Return the run id of a pod that is known by its name alone."""
    return f"kubernetes/{cluster}/{plain_name(namespace)}.{plain_name(pod)}"


def _uid(uids: set[str], living_uids: set[str] | None) -> str | None:
    """Return the uid of a pod, where its log directories leave but one, or but one that lives."""
    candidates = uids if living_uids is None else uids & living_uids or uids
    return next(iter(candidates)) if len(candidates) == 1 else None


def _grpc() -> ModuleType:
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # it tells every lost connection on stderr, and so do we
    try:
        return import_module("grpc")
    except ImportError as error:
        raise SourceError("there is a kubelet, but grpcio is missing; install requirements-kubernetes.lock") from error
