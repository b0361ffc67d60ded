"""Name a GPU model the way people order and price it: H100-80GB, A100-40GB, L40S-48GB."""

import re

from agent.wire.units import GIB

# What vendors print on the box. The driver reports a little less (ECC and firmware keep their part), never more.
_MARKETED_GIB = (4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 141, 144, 180, 186, 192, 270, 288)
_LARGEST_SHORTFALL = 0.12  # an L40S reports 45.0 of 48 GiB, a T4 with ECC 14.6 of 16
_ROUNDING = 1.005  # 141 GiB on the box may be 141.1 by the driver

_SIZE = re.compile(r"^(\d+)GB?$", re.IGNORECASE)
_NOT_THE_MODEL = re.compile(
    r"^(nvidia|tesla|quadro|geforce|generation|server|workstation|max-q|edition|laptop|gpu|ac"
    r"|sxm\d*|pcie|hbm\w*|\d+gb?|mig|\d+[cg](\.\d+[cg])*\.\d+gb(\+\w+)*)$",
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"[\s-]+")


def sku(name: str, memory_bytes: int | None) -> str:
    """Return model and memory, from the driver's product name and the device memory in bytes.

    Where the memory is unknown, a size within the name is used, else the model stands alone. A size in the name that
    the device contradicts is host memory (GH200 480GB) and is not believed.
    """
    words = [word for word in _SEPARATORS.split(name.strip()) if word]
    model = "-".join(word for word in words if not _NOT_THE_MODEL.match(word)) or "GPU"
    size = _size_gib([int(found[1]) for word in words if (found := _SIZE.match(word))], memory_bytes)
    return model if size is None else f"{model}-{size}GB"


def _size_gib(named: list[int], memory_bytes: int | None) -> int | None:
    if memory_bytes is None or memory_bytes <= 0:
        return named[0] if named else None
    measured = memory_bytes / GIB
    for size in (*named, *_MARKETED_GIB):
        if measured / _ROUNDING <= size and measured >= size * (1 - _LARGEST_SHORTFALL):
            return size
    return max(1, round(measured))
