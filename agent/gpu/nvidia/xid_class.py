"""Whose fault an XID error is: the program's own, the hardware's, or neither for sure.

Sources: NVIDIA, Xid Errors (catalog; what is met by restarting the application, by a reset, by a new board),
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html; which of them leave the GPU healthy: NVIDIA,
k8s-device-plugin, internal/rm/health.go (application errors).
"""

from typing import Literal, get_args

_XidClass = Literal["hardware", "program", "other"]
CLASSES: tuple[_XidClass, ...] = get_args(_XidClass)

# Kernel exception, page fault, stopped channel, clean-up after another error, video processor, context switch.
PROGRAM = frozenset((13, 31, 43, 45, 68, 109))
# Memory (48, 63, 64, 94, 95), NVLink (74), off the bus (79): what the analyzer's notices call hardware as well.
HARDWARE = frozenset((48, 63, 64, 74, 79, 94, 95))


def xid_class(number: int) -> _XidClass:
    """Return the class of an XID error; what neither list has (the driver, its firmware, what is new) is other."""
    if number in HARDWARE:
        return "hardware"
    return "program" if number in PROGRAM else "other"
