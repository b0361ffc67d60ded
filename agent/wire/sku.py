"""Name a GPU model the way people order and price it: H100-80GB, A100-40GB, L40S-48GB.

One naming for the driver, catalogues, list prices and bills: a board has one name, whoever spells it.
"""

import re

from agent.wire.units import GIB

# What vendors print on the box. The driver reports a little less (ECC and firmware keep their part), never more.
_MARKETED_GIB = (
    4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 72, 80, 94, 96, 128, 141, 144, 180, 186, 192, 256, 270, 288,
)  # fmt: skip
_LARGEST_SHORTFALL = 0.12  # an L40S reports 45.0 of 48 GiB, a T4 with ECC 14.6 of 16
_ROUNDING = 1.005  # 141 GiB on the box may be 141.1 by the driver
# Boards of which providers print more than the driver ever reports: the memory chips', not what is left of them.
_BOARD_GIB = {"H200": (141,), "B200": (180,), "GB200": (186,), "B300": (270,)}
_LARGEST_EXCESS = 1.08  # a B200 is sold as 192, a B300 as 288

_SIZE = re.compile(r"^(\d+)GB?$", re.IGNORECASE)
_NOT_THE_MODEL = re.compile(
    r"^(nvidia|amd|tesla|quadro|geforce|instinct|generation|server|workstation|max-q|edition|laptop|gpu|ac|hgx|oam|mega"
    r"|nvlink|bare|metal|baremetal|sxm\d*|pcie|hbm\w*|\d+gb?|mig|\d+[cg](\.\d+[cg])*\.\d+gb(\+\w+)*)$",
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"[\s_-]+")
# Catalogues leave out separators that the driver has: RTX4090, RTXPRO6000, RTX6000Ada, H100NVL, H100SXM5.
_JOINED = re.compile(
    r"(?<=[RG]TX)(?=A?\d|PRO)|(?<=PRO)(?=\d)|(?<=\d)(?=(?:Ada|Ti|SUPER)(?:SUPER)?$)|(?<=Ti)(?=SUPER$)"
    r"|(?<=\d00)(?=NVL|SXM|PCIE)",
    re.IGNORECASE,
)
_SIZE_APART = re.compile(r"(?<=\d)\s+(?=GB\b)", re.IGNORECASE)
_AS_THE_DRIVER = {word.casefold(): word for word in ("Ada", "Ti", "SUPER", "Blackwell")}
_MODELS = (  # and words that the driver has: A6000 is its RTX A6000, and each RTX PRO of four digits a Blackwell
    (re.compile(r"^(A[2456][05]00)$"), r"RTX-\1"),
    (re.compile(r"^(RTX-PRO-\d{4})$"), r"\1-Blackwell"),
)


def sku(name: str, memory_bytes: int | None) -> str:
    """Return model and memory, from a product name (the driver's or a catalogue's) and the device memory in bytes.

    Where the memory is unknown, a size within the name is used, else the model stands alone. A size in the name that
    the device contradicts is host memory (GH200 480GB) and is not believed.
    """
    spelled = _SIZE_APART.sub("", name.strip())
    spelled = _JOINED.sub("-", spelled.upper() if spelled.islower() else spelled)
    words = [_AS_THE_DRIVER.get(word.casefold(), word) for word in _SEPARATORS.split(spelled) if word]
    model = "-".join(word for word in words if not _NOT_THE_MODEL.match(word)) or "GPU"
    for pattern, driver_name in _MODELS:
        model = pattern.sub(driver_name, model)
    size = _size_gib(model, [int(found[1]) for word in words if (found := _SIZE.match(word))], memory_bytes)
    return model if size is None else f"{model}-{size}GB"


def _size_gib(model: str, named: list[int], memory_bytes: int | None) -> int | None:
    if memory_bytes is None or memory_bytes <= 0:
        return named[0] if named else None
    measured = memory_bytes / GIB
    for size in _BOARD_GIB.get(model, ()):
        if size * (1 - _LARGEST_SHORTFALL) <= measured <= size * _LARGEST_EXCESS:
            return size
    for size in (*named, *_MARKETED_GIB):
        if measured / _ROUNDING <= size and measured >= size * (1 - _LARGEST_SHORTFALL):
            return size
    return max(1, round(measured))
