"""Hosts that stood free all the period: handed back where they are billed by use, powered down where they are owned."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent.wire.units import SECOND_US
from analyzer.queries.statements import statements
from analyzer.recommendations.artefacts import kubernetes, slurm
from analyzer.recommendations.artefacts.owner import scheduler
from analyzer.recommendations.artefacts.quoting import joined_names, remark, words
from analyzer.recommendations.proposal import Proposal, Saved
from analyzer.recommendations.recommendation import Artefact, Constraint, Move
from analyzer.recommendations.saving import Share, over_words, recovered, told_over_us
from analyzer.recommendations.site import Host, Site
from analyzer.recommendations.types.amounts import NOTHING
from analyzer.recommendations.waking import Waking, waking
from analyzer.text.wording import counted, some
from analyzer.text.words import duration

if TYPE_CHECKING:
    from collector.store.session import Session

_BY_USE = ("on_demand", "spot")  # what is not paid for any more once it is handed back
_AGAIN = Share(600, 850, 1000)  # ours: one of them may be wanted in the next week
_JOULES_A_KWH = 3_600_000
_WAKE_UP = "fewer than three were seen to wake: wake one, and set ResumeTimeout or the autoscaler's patience by it"


def find_changes(session: "Session", site: Site, start_us: int, end_us: int) -> Iterator[Proposal]:
    """Yield a change for each group of hosts that nobody used, by its name; none while a run waits for its kind."""
    groups: dict[tuple[str, str], list[Host]] = defaultdict(list)
    wanted = {wait.sku for wait in site.waiting}
    for host in site.hosts.values():
        if host.is_always_free and host.state in (None, "up") and not wanted & {host.sku, None}:
            groups[host.node_group or host.sku or "hosts", host.purchase_option or "unknown"].append(host)
    idle = [host.node for hosts in groups.values() for host in hosts]
    watts = _watts(session, idle, start_us, end_us) if idle else {}
    wakes = waking(session, end_us) if idle else None
    for (group, option), hosts in sorted(groups.items()):
        yield _proposal(site, group, option, hosts, watts, wakes)


def _watts(session: "Session", nodes: Sequence[str], start_us: int, end_us: int) -> dict[str, float]:
    (select,) = statements("recommendations/idle_power.sql")
    return dict(session.rows(select, {"nodes": list(nodes), "start": start_us, "end": end_us}))


def _proposal(
    site: Site, group: str, option: str, hosts: Sequence[Host], watts: dict[str, float], wakes: Waking | None
) -> Proposal:
    nodes = [host.node for host in hosts]
    gpus = sum(host.gpus for host in hosts)
    by_use = option in _BY_USE
    known = [watts[node] for node in nodes if node in watts]
    over = told_over_us(site.end_us - site.start_us) // SECOND_US
    kwh = sum(known) * over / _JOULES_A_KWH
    drawn = f"{kwh:,.0f} kWh {over_words(over)} at the GPUs of {len(known)} of them, measured"
    drawn = drawn if known else "power not measured"
    return Proposal(
        kind="scale_in" if by_use else "power_down",
        title=f"{'hand back' if by_use else 'power down'} {counted(len(nodes), 'host')} of {group}",
        from_=f"{some(nodes)}: {counted(gpus, 'GPU')} free all the period ({option})",
        to=f"{'handed back' if by_use else 'powered down'} until runs ask for them",
        why=f"nobody held a GPU of theirs in the period; {drawn}",
        saves=_saved(site, hosts) if by_use else NOTHING,
        artefacts=_lines(site, group, nodes),
        losers="the next run that needs them: it waits until they are awake",
        winners="the bill" if by_use else "the energy bill: the GPUs themselves are paid for, used or not",
        move=Move(site.place_on(nodes, gpus, hosts[0].sku), None),
        constraints=(
            Constraint("nobody waits", True, "no run waits for their kind as the period ends"),
            Constraint("billed by use", by_use, f"purchase option: {option}")
            if by_use
            else Constraint("billed by use", None, f"purchase option: {option}; energy is saved, no GPU-hour"),
            _wake_up(wakes),
        ),
        cost_to_move="none now; a wake-up when they are wanted",
        actor="capacity",
        subject=f"{group}, {option}",
        cause="free",
        confidence="high" if hosts[0].state else "medium",
    )


def _wake_up(wakes: Waking | None) -> Constraint:
    if wakes is None:
        return Constraint("wake-up", None, _WAKE_UP)
    middle, most = duration(wakes.p50_seconds), duration(wakes.p90_seconds)
    return Constraint("wake-up", True, f"{middle} in the middle, nine of ten within {most} ({wakes.seen} seen)")


def _saved(site: Site, hosts: Sequence[Host]) -> Saved:
    period = site.end_us - site.start_us
    ms = sum(host.free_ms for host in hosts)
    money = [host.micros for host in hosts]
    paid = None if None in money else recovered(sum(each or 0 for each in money), period, _AGAIN)
    return Saved(recovered(ms, period, _AGAIN), paid)


def _lines(site: Site, group: str, nodes: Sequence[str]) -> tuple[Artefact, ...]:
    known = {scheduler(run_id) for run_id in site.runs}
    all_of = sum((host.node_group or host.sku or "hosts") == group for host in site.hosts.values())
    found: list[Artefact] = []
    if "slurm" in known:
        found.append(
            slurm.commands(
                "# needs SuspendProgram and ResumeProgram in slurm.conf, and a ResumeTimeout longer than their wake-up",
                f"scontrol update nodename={joined_names(nodes)} state=power_down",
            )
        )
    if "kubernetes" in known:
        found.append(
            kubernetes.text(
                f"# then set the node group {remark(group)} from {all_of} to {all_of - len(nodes)}, where it is kept",
                f"kubectl cordon {words(nodes)}",
            )
        )
    return tuple(found)
