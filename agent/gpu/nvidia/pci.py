"""NVIDIA's GPUs on the PCI bus, as the kernel shows them to every user: also one that its driver could not take up."""

from pathlib import Path

from agent.procfs import short, text

_PLACE = "bus/pci/devices"  # below /sys
_DEVICES_MAX = 4096
_NVIDIA = "0x10de"
_DISPLAY = "0x03"  # the base class of VGA and 3D controllers; NVSwitches and audio have others
_VIRTUAL_OF = "physfn"  # a function of a GPU that virtual machines share: it is no board of its own
_OFF_THE_BUS = b"\xff\xff"  # what reads of a device give that does not answer: no vendor has this number


def fallen_gpus(sys: Path) -> list[str]:
    """Return the bus ids of GPUs that are there and that nobody can use: off the bus, or without any driver.

    One with a driver that is not NVIDIA's was given away on purpose (to a virtual machine), and one that answers its
    driver may merely not be shown to this process: neither is said to be lost.
    """
    try:
        places = sorted((sys / _PLACE).iterdir())[:_DEVICES_MAX]
    except OSError:  # no PCI bus, or none that may be seen: nothing is known of it
        return []
    return [place.name for place in places if _is_gpu(place) and _is_fallen(place)]


def _is_gpu(place: Path) -> bool:
    is_nvidias = (text(place / "vendor") or "").strip() == _NVIDIA
    return is_nvidias and (text(place / "class") or "").startswith(_DISPLAY) and not (place / _VIRTUAL_OF).exists()


def _is_fallen(place: Path) -> bool:
    driver = place / "driver"
    if not driver.is_symlink():
        return True
    head = short(str(place / "config"))
    return driver.readlink().name == "nvidia" and head is not None and head[:2] == _OFF_THE_BUS
