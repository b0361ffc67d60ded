"""What a kubelet's PodResources answers say: which container holds which devices."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agent.attribution.devices import Devices
from agent.attribution.protobuf import fields

_PODS_MAX = 4096
_DEVICES_MAX = 4096  # of one answer; a GPU is at most 48 replicas or so

_REPLICA = re.compile(r"::\d+$|/vgpu\d+$")  # NVIDIA's device plugin and GKE's, where several pods share a GPU
_GKE = re.compile(r"nvidia(\d+)(?:/gi(\d+))?")
_OLD_MIG = re.compile(r"MIG-(GPU-[^/]+)/(\d+)/\d+")  # drivers before 470
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z-]{4,64}")


@dataclass(frozen=True, slots=True)
class Container:
    """The devices of one container. `claims` counts those held through Dynamic Resource Allocation, by other names."""

    namespace: str
    pod: str
    name: str
    device_ids: tuple[str, ...]
    claims: int = 0


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
    """Return the ids of all devices of an AllocatableResourcesResponse, v1.

    Raises:
        ValueError: this is no such message.
    """
    return [device_id for devices in _messages(response, 1) for device_id in _texts(devices, 2)][:_DEVICES_MAX]


def replicas(allocatable_ids: Iterable[str]) -> dict[str, int]:
    """Return in how many parts each shared GPU is handed out, by the id that its parts have in common."""
    return Counter(shared(device_id) for device_id in allocatable_ids if shared(device_id) != device_id)


def shared(device_id: str) -> str:
    """Return the id of the GPU that this id is a part of; of a whole GPU its own."""
    return _REPLICA.sub("", device_id)


def unit(device_id: str, devices: Devices) -> str | None:
    """Return the UUID of the GPU or MIG instance that a device id stands for, or None where it is not one of NVIDIA's.

    A UUID that the driver does not list is one all the same: a pod still holds a GPU that is off the bus.
    """
    name = shared(device_id)
    if found := _GKE.fullmatch(name):
        return devices.by_minor(int(found[1]), int(found[2]) if found[2] else None)
    if found := _OLD_MIG.fullmatch(name):
        return devices.instance_of(found[1], int(found[2]))
    return name if _UUID.fullmatch(name) else None


def _container(namespace: str, pod: str, message: bytes) -> Container:
    ids = tuple(device_id for devices in _messages(message, 2) for device_id in _texts(devices, 2))
    claims = sum(1 for resource in _messages(message, 5) for _ in _messages(resource, 4))
    return Container(namespace, pod, _text(message, 1), ids[:_DEVICES_MAX], claims)


def _messages(message: bytes, number: int) -> Iterator[bytes]:
    return (value for field, value in fields(message) if field == number and isinstance(value, bytes))


def _texts(message: bytes, number: int) -> Iterator[str]:
    return (value.decode("utf-8", "replace") for value in _messages(message, number))


def _text(message: bytes, number: int) -> str:
    return next(_texts(message, number), "")
