"""How many GPUs Slurm counts, and which: TRES and gres in their several spellings."""

import re
from collections.abc import Iterable, Mapping

from collector.schedulers.slurm.fields import whole_number

_MOST_INDEX = 1024  # on one host
_COUNT = re.compile(r"(?:^|,)(?:gres[/:])?gpu(?:[:=](\d+)|[:=]?)(?=,|$)")
_TYPED = re.compile(r"(?:^|,)(?:gres[/:])?gpu:[^:=,]+[:=](\d+)(?=,|$)")
_PART = re.compile(r"(?:^|,)(?:gres[/:])?(?:shard|mps)(?:[:/][^:=,]+)*[:=](\d+)(?=,|$)")
_DETAIL = re.compile(r"(?:^|,)gpu(?::[^:,(]+)?:\d+\(IDX:([0-9,\-]*)\)")


def gpus(tres: object) -> int | None:
    """Return how many GPUs a TRES speaks of: `cpu=8,gres/gpu=4`, or accounting's list of {type, name, count}.

    A part of a GPU (shard, MPS) counts as 0 whole ones, and None is said where no GPU is spoken of at all.
    """
    if isinstance(tres, str):
        return _of_text(tres)
    if isinstance(tres, Iterable):
        return _of_list([one for one in tres if isinstance(one, Mapping) and one.get("type") == "gres"])
    return None


def _of_text(tres: str) -> int | None:
    for pattern in (_COUNT, _TYPED):  # the count without a type is the sum of those with one
        if found := pattern.findall(tres):
            return sum(int(count or 1) for count in found)
    return 0 if _PART.search(tres) else None


def _of_list(gres: list[Mapping[str, object]]) -> int | None:
    named = [(str(one.get("name") or ""), whole_number(one.get("count"))) for one in gres]
    for counts in (
        [count for name, count in named if name == "gpu"],
        [count for name, count in named if name.startswith("gpu:")],
    ):
        if known := [count for count in counts if count is not None]:
            return sum(known)
    return 0 if any(name.split(":")[0] in ("shard", "mps") for name, _ in named) else None


def indices(detail: str) -> tuple[int, ...] | None:
    """Return which GPUs of a host a detail names: `gpu:h100:4(IDX:0-1,3)` is 0, 1 and 3; None where it does not say.

    Slurm counts them in the order of gres.conf, which is the order of the device files.
    """
    found = [_numbers(inside) for inside in _DETAIL.findall(detail)]
    if not found or None in found:
        return None
    return tuple(sorted({index for part in found for index in part or ()})) or None


def _numbers(inside: str) -> list[int] | None:
    numbers: list[int] = []
    for part in filter(None, inside.split(",")):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or int((last or first)[:9]) > _MOST_INDEX:
            return None
        numbers.extend(range(int(first[:9]), int((last or first)[:9]) + 1))
    return numbers
