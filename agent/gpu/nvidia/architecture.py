"""What the driver's number of an architecture stands for."""

from collections.abc import Mapping

# nvml.h, NVML_DEVICE_ARCH_*
_NAMES: Mapping[int, str] = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
HOPPER = 9  # the first with GPM
_UNKNOWN = 0xFFFFFFFF


def architecture_name(number: int | None) -> str | None:
    """Return the name of an architecture; one that is newer than we are keeps its number."""
    if number is None or number == _UNKNOWN:
        return None
    return _NAMES.get(number, f"architecture {number}")
