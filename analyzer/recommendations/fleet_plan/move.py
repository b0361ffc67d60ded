"""From where to where: nodes, racks and GPUs, for programs; `from_` and `to` of a proposal say it in words."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placement:
    """Where something is or should be. Nodes are in the order of ranks; a rack is None where it is not known."""

    nodes: tuple[str, ...]
    racks: tuple[str | None, ...]  # of each node
    gpus: int
    sku: str | None = None
    slice_: str | None = None  # a MIG profile, such as 1g.10gb


@dataclass(frozen=True, slots=True)
class Move:
    """What moves. `from_` is None for what is not placed yet, `to` for what is given back."""

    from_: Placement | None
    to: Placement | None
