"""Changes of power limits: as high as those of its kind where one is lower, else a cap for a steady clock."""

from collections import Counter
from collections.abc import Iterable

from analyzer.findings.finding import Finding
from analyzer.recommendations.artefacts.quoting import joined_names, remark
from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.recommendation import Constraint, Move, shell
from analyzer.recommendations.saving import ASSUMED
from analyzer.recommendations.site import Limited, Site
from analyzer.recommendations.types.amounts import NOTHING
from analyzer.text.wording import counted, some

# ours: a tenth below what it draws while it is held back
_CAP_PERMILLE = 900
_MEGA = 1_000_000


def limit_power(finding: Finding, site: Site) -> Proposal | None:
    """Raise a limit that is lower than its kind's, else cap; None where limits, clocks or draw are not known."""
    nodes = {node for one in site.placed(finding.run_ids) for node in one.hosts}
    slow = [one for one in site.limited.values() if one.node in nodes and one.limit_watts is not None]
    low = [one for one in slow if (one.usual_watts or 0) > (one.limit_watts or 0)]
    return _raised(low, site) if low else _capped([one for one in slow if one.power_watts and one.clock_hertz], site)


def _raised(low: list[Limited], site: Site) -> Proposal:
    nodes = sorted({one.node for one in low})
    place = site.place_on(nodes, len(low))
    return Proposal(
        kind="raise_power_limit",
        title=f"raise the power limit of {counted(len(low), 'GPU')} to that of their kind",
        from_=f"{_watts(one.limit_watts for one in low)} on {some(nodes)}",
        to=f"{_watts(one.usual_watts for one in low)}, as most of their kind have",
        why="their limit is lower than their kind's, and they lose clock for power",
        saves=ASSUMED["repair"],
        artefacts=(shell("\n".join(_set(alike, watts) for watts, alike in _by_usual(low))),),
        losers="the power and cooling of their rack",
        winners="every run that gets these GPUs",
        move=Move(place, place),
        constraints=(
            Constraint("limit of the board", True, "others of their kind have that limit"),
            Constraint("power of the rack", None, "what it can draw and cool is not known here"),
        ),
        actor="platform",
        slow_hosts=tuple(nodes),
    )


def _capped(slow: list[Limited], site: Site) -> Proposal | None:
    """Return a cap below what they draw while they are held back. It gives back no clock: that is said."""
    if not slow:
        return None
    nodes = sorted({one.node for one in slow})
    place = site.place_on(nodes, len(slow))
    # one cap for all of them, by the one that draws least, in whole tens: so that they clock alike
    cap = int(min(min(one.power_watts or 0, one.limit_watts or 0) for one in slow)) * _CAP_PERMILLE // 10_000 * 10
    hertz = sorted(one.clock_hertz or 0 for one in slow)
    reference = max((one.reference_hertz or 0 for one in slow), default=0)
    clock = (
        f"{hertz[0] / _MEGA:.0f} to {hertz[-1] / _MEGA:.0f} MHz"
        if hertz[0] != hertz[-1]
        else f"{hertz[0] / _MEGA:.0f} MHz"
    )
    of = f" of {reference / _MEGA:.0f}" if reference else ""
    return Proposal(
        kind="power_cap",
        title=f"cap {counted(len(slow), 'GPU')} below the limit at which they are held back",
        from_=f"{_watts(one.limit_watts for one in slow)}, at {clock}{of} while held back, on {some(nodes)}",
        to=f"{cap} W: a steady clock on all, and less heat",
        why="at their limit their clocks wander apart, and every rank of a run waits for the slowest"
        if hertz[0] != hertz[-1]
        else "at their limit the clock is held back by the moment; below it, it is steady. No GPU time is saved by it",
        saves=NOTHING,
        artefacts=(shell(_set(slow, cap)),),
        losers=f"the clock: it is at {clock}{of} now, and a cap lowers it further; by how much was not measured here, "
        "the power falls faster than the clock",
        winners="the power and cooling of their rack",
        move=Move(place, place),
        constraints=(Constraint("clock under the cap", None, "try it on one host for a day, and compare its steps"),),
        actor="platform",
    )


def _by_usual(low: list[Limited]) -> list[tuple[float, list[Limited]]]:
    return [
        (watts, [one for one in low if one.usual_watts == watts])
        for watts in sorted({one.usual_watts for one in low if one.usual_watts is not None})
    ]


def _set(gpus: list[Limited], watts: float) -> str:
    """Return the commands, a line a host."""
    nodes = sorted({one.node for one in gpus})
    return "\n".join(
        f"# on {remark(node)}\n"
        f"nvidia-smi -i {joined_names(one.gpu_uuid for one in gpus if one.node == node)} -pl {watts:.0f}"
        for node in nodes
    )


def _watts(found: Iterable[float | None]) -> str:
    counts = Counter(round(each) for each in found if each is not None)
    return ", ".join(
        f"{watts} W" + (f" ({count})" if len(counts) > 1 else "") for watts, count in sorted(counts.items())
    )
