"""The kubelet of this host: which pod holds which GPU, with or without a process on it.

It says so on a socket that root alone may open unless the operator lets the agent's group in (docs/attribution.md).
gRPC is an extra (requirements-kubernetes.lock) and loaded only where there is a kubelet.
"""

import logging
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from agent.attribution.declared import plain_name
from agent.attribution.devices import Devices
from agent.attribution.holds import GpuHold, Meant, ProviderReport
from agent.attribution.podresources import Container, allocatable, containers, replicas, shared, unit
from agent.attribution.pods import living, logged
from agent.attribution.run import Attribution, Authority
from agent.errors import SourceError

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
            raise SourceError(f"the kubelet at {self._socket} answers in a form that is not known: {error}") from error
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
            raise SourceError(f"{self._socket} may not be looked at ({error}); let the agent's group in") from error
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
            raise SourceError(f"the kubelet at {self._socket} does not answer: {code}, {error.details()}") from error
        return answer

    def _look_for_replicas(self) -> None:
        """Learn in how many parts GPUs are shared. Kubelets before 1.23 do not say: the parts are then unknown."""
        self._replicas_at = self._seconds()
        try:
            self._replicas = replicas(allocatable(self._ask("GetAllocatableResources")))
        except SourceError as error:
            _LOG.info("in how many parts GPUs are shared is not known: %s", error)

    def _count_claims(self, claims: int) -> None:
        if claims and not self.claims:
            _LOG.warning("%d devices are held by resource claims, whose GPUs only the cluster knows by name", claims)
        self.claims = claims

    def _told(self, listed: Iterable[Container]) -> ProviderReport:
        living_uids, uids = living(self._sys), logged(self._logs)
        held: list[GpuHold] = []
        names: dict[str, Meant] = {}
        for one in listed:
            pod, alias = (one.namespace, one.pod), _pod_run_id(self._cluster, one.namespace, one.pod)
            uid = _uid(uids.get(pod, set()), living_uids) or self._uid_of(alias)
            if uid is not None and living_uids is not None and uid not in living_uids:
                continue  # it has ended, and is listed all the same
            found = self._held(one, alias)
            held += found
            if uid is not None and found:
                names[alias] = Meant(f"kubernetes/{self._cluster}/{uid}", f"{one.namespace}/{one.pod}")
        return ProviderReport(tuple(held), names)

    def _held(self, one: Container, run_id: str) -> list[GpuHold]:
        devices, parts = self._devices(), dict[str, list[str]]()
        for device_id in one.device_ids:
            if (uuid := unit(device_id, devices)) is not None:
                parts.setdefault(uuid, []).append(device_id)
        attribution = Attribution(run_id, "kubernetes", member=f"{one.namespace}/{one.pod}/{one.name}")
        return [GpuHold(uuid, attribution, self._fraction(ids)) for uuid, ids in parts.items()]

    def _fraction(self, ids: list[str]) -> float | None:
        whole = self._replicas.get(shared(ids[0]), 0)
        return min(1.0, len(ids) / whole) if whole > 1 and shared(ids[0]) != ids[0] else None


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
