"""A kubelet's PodResources service on a unix socket: real gRPC, its answers encoded by hand."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from tests.waiting import PATIENCE_SECONDS

Pods = Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]]  # "namespace/pod" to container to resource to ids


def field(number: int, value: bytes | str | int) -> bytes:
    """Return one field of a message on the wire."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    """Return a whole number as varint."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def devices(resource: str, ids: Sequence[str]) -> bytes:
    """Return a ContainerDevices, with the topology that a kubelet adds."""
    topology = field(3, field(1, field(1, 0)))
    return field(1, resource) + b"".join(field(2, device_id) for device_id in ids) + topology


def list_response(pods: Pods) -> bytes:
    """Return a ListPodResourcesResponse."""
    answer = b""
    for name, containers in pods.items():
        namespace, _, pod = name.partition("/")
        message = field(1, pod) + field(2, namespace)
        for container, resources in containers.items():
            held = b"".join(field(2, devices(resource, ids)) for resource, ids in resources.items())
            message += field(3, field(1, container) + held + field(3, 5))  # a CPU of its own, as some have
        answer += field(1, message)
    return answer


def allocatable_response(resource: str, ids: Sequence[str]) -> bytes:
    """Return an AllocatableResourcesResponse."""
    return field(1, devices(resource, ids)) + field(2, 3)


class StandIn:
    """Serves what it is told to. `hang` lets a question wait until it is cleared."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.listed = b""
        self.allocatable: bytes | None = None
        self.asked: list[str] = []
        self.hang = threading.Event()
        self.go_on = threading.Event()
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """Serve, as a kubelet that has just come up."""
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
        self._server.add_generic_rpc_handlers((_Handler(self._answer),))
        assert self._server.add_insecure_port(f"unix://{self.socket}")
        self._server.start()

    def stop(self) -> None:
        """End, as a kubelet that is restarted; its socket goes with it."""
        self.go_on.set()
        if self._server is not None:
            self._server.stop(None).wait()
            self._server = None
        self.socket.unlink(missing_ok=True)

    def _answer(self, method: str, context: Any) -> bytes:
        self.asked.append(method)
        if self.hang.is_set():
            self.go_on.wait(PATIENCE_SECONDS)
        if method == "List":
            return self.listed
        if self.allocatable is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method")
        assert self.allocatable is not None
        return self.allocatable


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    def __init__(self, answer: Callable[[str, Any], bytes]) -> None:
        self._answer = answer

    def service(self, details: Any) -> Any:
        service, _, method = details.method.lstrip("/").partition("/")
        if service != "v1.PodResourcesLister":
            return None
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self._answer(method, context))
