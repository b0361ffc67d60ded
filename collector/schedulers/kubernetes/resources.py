"""How many GPUs a pod asks for."""

import re
from collections.abc import Iterable

from collector.schedulers.kubernetes.fields import Json, at, objects

# Whole GPUs, time-sliced or renamed ones (gpu.shared), and MIG instances (mig-1g.10gb): each counts as one unit, as the
# device plugin hands them out. What else the vendor's domain holds (pgpu for virtual machines) is no unit of ours.
_UNIT = re.compile(r"nvidia\.com/(?:gpu(?:\.shared)?|[A-Za-z0-9.]+\.shared|mig-[0-9]+g\.[0-9]+gb(?:\.[a-z.]+)?)")
_UNITS_MAX = 1_000_000


def gpus(spec: Json) -> int:
    """Return the units that a pod's specification asks for.

    Containers run side by side and add up; so do init containers that stay (restartPolicy Always). Other init
    containers run one by one before them and count only where one asks for more than all those.
    Source: Kubernetes documentation, "Init Containers", resource sharing within containers.
    """
    before = list(objects(spec, "initContainers"))
    staying = [one for one in before if one.get("restartPolicy") == "Always"]
    side_by_side = sum(map(_asked, [*objects(spec, "containers"), *staying]))
    return max([side_by_side, *(_asked(one) for one in before if one not in staying)])


def claims(spec: Json) -> bool:
    """Return whether a pod holds claims of Dynamic Resource Allocation; of what, only its ResourceClaims say."""
    return any(True for _ in objects(spec, "resourceClaims"))


def is_unit(name: str) -> bool:
    """Return whether a resource is a GPU or a part of one."""
    return _UNIT.fullmatch(name) is not None


def _units(amounts: object) -> int:
    """Return the units in an object of resource names and amounts."""
    if not isinstance(amounts, dict):
        return 0
    return _total(amount for name, amount in amounts.items() if isinstance(name, str) and is_unit(name))


def _asked(container: Json) -> int:
    # Extended resources have equal requests and limits; either may be left out.
    return max(_units(at(container, "resources", "limits")), _units(at(container, "resources", "requests")))


def _total(amounts: Iterable[object]) -> int:
    found = (str(amount) for amount in amounts if isinstance(amount, (str, int)) and not isinstance(amount, bool))
    return min(_UNITS_MAX, sum(int(amount) for amount in found if amount.isdecimal() and len(amount) < 10))
