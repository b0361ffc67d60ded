"""MIG layouts: which slices a GPU of a kind can be cut into, and the commands for it.

Source: NVIDIA MIG User Guide, Supported MIG Profiles, https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
supported-mig-profiles.html; with the media extensions (+me), which one slice may have, and the whole GPU left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.wire.units import GIB
from analyzer.recommendations.artefacts import shell_word
from analyzer.recommendations.recommendation import Artefact


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of slice: its name, its share of the SMs in sevenths (of an A30 in quarters), and how many fit."""

    name: str
    count: int

    @property
    def memory_bytes(self) -> int:
        """Its memory, as its name says it."""
        return int(self.name.split(".")[1].removesuffix("gb")) * GIB

    @property
    def slices(self) -> int:
        """Its compute slices."""
        return int(self.name.split("g.")[0])


def _of(*counts: tuple[str, int]) -> tuple[Profile, ...]:
    return tuple(Profile(name, count) for name, count in counts)


_80GB = _of(("1g.10gb", 7), ("1g.20gb", 4), ("2g.20gb", 3), ("3g.40gb", 2), ("4g.40gb", 1))
_96GB = _of(("1g.12gb", 7), ("1g.24gb", 4), ("2g.24gb", 3), ("3g.48gb", 2), ("4g.48gb", 1))
# By the names that agent.wire.sku gives, smallest slice first.
PROFILES: dict[str, tuple[Profile, ...]] = {
    "A30-24GB": _of(("1g.6gb", 4), ("2g.12gb", 2)),
    "A100-40GB": _of(("1g.5gb", 7), ("1g.10gb", 4), ("2g.10gb", 3), ("3g.20gb", 2), ("4g.20gb", 1)),
    "A100-80GB": _80GB,
    "H100-80GB": _80GB,
    "H100-94GB": _of(("1g.12gb", 7), ("1g.24gb", 4), ("2g.24gb", 3), ("3g.47gb", 2), ("4g.47gb", 1)),
    "GH200-96GB": _96GB,
    "H20-96GB": _96GB,
    "H200-141GB": _of(("1g.18gb", 7), ("1g.35gb", 4), ("2g.35gb", 3), ("3g.71gb", 2), ("4g.71gb", 1)),
    "B200-180GB": _of(("1g.23gb", 7), ("1g.45gb", 4), ("2g.45gb", 3), ("3g.90gb", 2), ("4g.90gb", 1)),
    "GB200-186GB": _of(("1g.23gb", 7), ("1g.47gb", 4), ("2g.47gb", 3), ("3g.93gb", 2), ("4g.93gb", 1)),
}


def profile(sku: str | None, memory_bytes: int) -> Profile | None:
    """Return the slice of which most fit on a GPU of this kind and which has this memory; None where there is none."""
    fitting = [each for each in PROFILES.get(sku or "", ()) if each.memory_bytes >= memory_bytes and each.count > 1]
    return max(fitting, key=lambda each: (each.count, each.memory_bytes), default=None)


def layout(of: Profile, gpus: Sequence[str]) -> Artefact:
    """Return the commands that cut these GPUs, by uuid, into as many slices as fit; nothing may run on them."""
    slices = ",".join([of.name] * of.count)
    cut = [
        line
        for gpu in map(shell_word, gpus)
        for line in (f"nvidia-smi -i {gpu} -mig 1", f"nvidia-smi mig -i {gpu} -cgi {slices} -C")
    ]
    return Artefact("mig", "\n".join(("# once nothing runs on it: what is there and not saved would be lost", *cut)))
