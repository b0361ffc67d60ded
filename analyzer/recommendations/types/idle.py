"""Changes of GPUs that are held and not used, and of hosts that nobody holds: give them back, or do not ask for them.

Hosts that stood free all the period are handed back where they are billed by use, and powered down where they are
owned; what that costs is how long hosts of this site take to wake, as their scheduler told it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.wire.units import SECOND_US
from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.prices.rows import BY_USE
from analyzer.queries.statements import statements
from analyzer.recommendations.artefacts import (
    kubectl_end,
    native,
    owner,
    pod_patch,
    pod_resources,
    remark,
    scancel,
    scheduler,
    time_limit,
    without_label,
)
from analyzer.recommendations.proposal import Proposal, lines, proposal_of
from analyzer.recommendations.recommendation import (
    ASSUMED,
    Artefact,
    Constraint,
    Move,
    Saved,
    Share,
    over_words,
    recovered,
    share_of_loss,
    told_over_us,
)
from analyzer.recommendations.site import Host, Placed, Site, distinct
from analyzer.recommendations.types import checks
from analyzer.sizing.memory import need_of
from analyzer.text.words import counted, duration, length_of_time, some
from collector.store.session import Session

_LEAST_OF_LOSS = 10  # a change must touch a tenth of the loss that it answers to be worth a word: ours
_MARGIN = 5, 4  # a time limit leaves a quarter above what was worked
_IDLING_SECONDS = 1800  # by the clock, before anybody is asked: as the ledger calls a GPU abandoned
_NO_GPUS = without_label("nvidia.com/gpu.present")
_AGAIN = Share(600, 850, 1000)  # ours: one of them may be wanted in the next week
_JOULES_A_KWH = 3_600_000
_WAKE_UP = "fewer than three wake-ups observed: wake one, and set ResumeTimeout or the autoscaler's delay by it"
_POWERING_UP = "powering up"  # the reason that collector/schedulers/slurm writes of such a host
_BACK_US = 91 * 86_400_000_000  # a quarter: hosts wake seldom
_LEAST_WAKINGS = 3  # below which one odd night is all that is known


def release(finding: Finding, site: Site) -> Proposal | None:
    """Ask for GPUs back of runs that idle by the clock now; of others a limit from the next start on.

    None where other GPUs of the runs never idled: a rank that does little is waited for, or waits, and is not released.
    """
    runs = [one for one in site.placed(finding.run_ids) if one.idle_gpus is None or one.idle_gpus >= one.gpus]
    if not runs and site.placed(finding.run_ids):
        return None
    still = idling(runs)
    of = still or runs
    pasted = _ending(still) if still else _limits(runs)
    ended = "" if any(one.is_open for one in runs) else ": they have ended by now, the next ones may not"
    facts = {
        "finding": finding,
        "takers": site.takers,
        "gpus": distinct(of),
        "nodes": _nodes(of),
        "idle": idle_words(still) if still else "",
        "ended": ended,
        "why": "nothing ran on them anymore"
        if finding.cause == "abandoned"
        else "memory is in use, and next to nothing runs",
    }
    quiet = "release_limited" if pasted else "release_unlimited"
    return proposal_of(
        *(("release",) if still else (quiet, "release")),
        facts=facts,
        served=(site, of),
        saves=ASSUMED["release"],
        artefacts=pasted,
        move=Move(site.whole_place(of), None),
        constraints=(_owner_said(still),),
    )


def end_hung(finding: Finding, site: Site) -> Proposal | None:
    """Ask to end a run in which no rank moves, by the clock and until now; None where none of them hangs still."""
    still = idling(site.placed(finding.run_ids))
    if not still:
        return None
    return proposal_of(
        "end_hung",
        facts={"finding": finding, "gpus": distinct(still), "idle": idle_words(still)},
        saves=ASSUMED["release"],
        artefacts=_ending(still),
        move=Move(site.whole_place(still), None),
        constraints=(_owner_said(still),),
    )


def idling(runs: Sequence[Placed]) -> list[Placed]:
    """Return those that still run and on whose GPUs nothing runs now: of which that is not known are left alone."""
    return [one for one in runs if one.is_open and (one.idle_seconds or 0) >= _IDLING_SECONDS]


def idle_words(runs: Sequence[Placed]) -> str:
    """Return for how long the one that idles least does, by the clock."""
    least = length_of_time(1000 * min(one.idle_seconds or 0 for one in runs))
    return least if len(runs) == 1 else f"{least} or more"


def ask_for_fewer(finding: Finding, site: Site) -> Proposal | None:
    """Do not ask for GPUs on which no kernel ever ran: by how many, the ledger knows.

    None where those that waited worked later on: a session that begins in the afternoon needs its GPU. Of a run on
    several GPUs none is taken on which a rank of it waits, nor where nobody saw whether one does.
    """
    runs = [one for one in site.placed(finding.run_ids) if one.gpus == 1 or one.idle_ranks == 0]
    lost_ms = _never_used(finding, runs)
    if lost_ms * _LEAST_OF_LOSS < finding.milliseconds:
        return None
    held = sum(one.gpus for one in runs)
    unused = min(held, _gpus_of(lost_ms, runs))
    left = held - unused
    facts = {
        "finding": finding,
        "takers": site.takers,
        "held": held,
        "unused": unused,
        "left": left,
        "each": "" if len(runs) == 1 else f" by {counted(len(runs), 'run')}",
    }
    smaller = site.place_on(_nodes(runs), left, site.sku_of(runs[0])) if left and runs else None
    return proposal_of(
        *(("fewer_gpus",) if left else ("no_gpus", "fewer_gpus")),
        facts=facts,
        saves=share_of_loss(ASSUMED["never_used"], lost_ms, finding.milliseconds),
        artefacts=_fewer_of(runs, left) if runs else (),
        move=Move(site.whole_place(runs), smaller),
        constraints=(
            Constraint("GPUs that worked", True, f"{left} of {held} ran a kernel in this period"),
            Constraint("host without GPUs", None, "whether the site has any is unknown")
            if left == 0
            else Constraint("ranks", None, "whether the run can work with fewer ranks, its owner knows"),
            *_model_on_fewer(site, runs, left),
        ),
    )


def _model_on_fewer(site: Site, runs: Sequence[Placed], left: int) -> list[Constraint]:
    """Say whether a run's model fits the GPUs that are left to it; nothing where model or memory is not known."""
    need = need_of(runs[0].model, runs[0].stage, left) if len(runs) == 1 and left else None
    memory = [host.gpu_memory_bytes for host in site.of_run(runs[0]) if host.gpu_memory_bytes] if need else []
    if need is None or not memory:
        return []
    return [checks.model_memory(need, site.sku_of(runs[0]) or "its GPUs", min(memory), site)]


def _fewer_of(runs: Sequence[Placed], left: int) -> tuple[Artefact, ...]:
    """Return the lines for these runs: fewer for each where that is even, else none for those that never worked."""
    first, is_even = runs[0], left % len(runs) == 0 and len({one.gpus for one in runs}) == 1
    if is_even:
        return _fewer(first, left // len(runs))
    quiet = [native(one.run_id) for one in runs if one.productive_ms == 0] or [native(one.run_id) for one in runs]
    return _fewer(first, 0, remark(f", as of {some(quiet, 8)}"))


def _fewer(placed: Placed, gpus: int, which: str = "") -> tuple[Artefact, ...]:
    if gpus == 0:
        return lines("no_gpus", placed, which=which, owner=owner(placed), patch=pod_patch(placed, _NO_GPUS))
    hosts = len(placed.hosts)
    asked = f"gpus-per-node={gpus // hosts}" if gpus % hosts == 0 else f"gpus={gpus}"
    resources = pod_resources(placed, {"nvidia.com/gpu": str(gpus)}, {"nvidia.com/gpu": str(gpus)})
    return lines("fewer_gpus", placed, gpus=asked, resources=resources)


def without_gpus(notice: Notice, site: Site) -> Proposal | None:
    """Give work for processors that holds no GPU to hosts without any; what holds some has a finding of its own."""
    node = notice.node
    if node is None or any(run_id in site.runs for run_id in notice.run_ids) or not notice.run_ids:
        return None
    run = Placed(notice.run_ids[0], (node,), 0, None, name=notice.subject)
    beside = sorted({one.called for one in site.beside(node)})
    return proposal_of(
        "without_gpus",
        facts={"notice": notice, "beside": some(beside) or "runs with GPUs"},
        saves=checks.NOTHING,
        artefacts=lines("hosts_without_gpus", run, hosts=sorted(site.hosts), patch=pod_patch(run, _NO_GPUS)),
        move=Move(site.place_on([node], 0), None),
        constraints=(Constraint("host without GPUs", None, "whether the site has any is unknown"),),
    )


def _nodes(runs: Sequence[Placed]) -> list[str]:
    return sorted({node for one in runs for node in one.hosts})


def _never_used(finding: Finding, runs: Sequence[Placed]) -> int:
    """Return how much of the finding's time is of GPUs that never worked: all of it where that is not known."""
    known = [one.never_used_ms for one in runs]
    return finding.milliseconds if None in known else min(finding.milliseconds, sum(each or 0 for each in known))


def _gpus_of(lost_ms: int, runs: Sequence[Placed]) -> int:
    """Return how many GPUs' time this is, of what these runs held: all of them where that is not known."""
    held_ms = sum(one.held_ms or 0 for one in runs)
    gpus = sum(one.gpus for one in runs)
    return max(1, round(gpus * lost_ms / held_ms)) if held_ms else gpus


def _owner_said(still: Sequence[Placed]) -> Constraint:
    if not still:
        return Constraint("state is saved", None, "up to each run")
    held = ", ".join(f"{one.called} on {some(list(one.hosts))}" for one in still[:3])
    return Constraint("state is saved", None, f"still held: {held}; only its owner knows whether its state is saved")


def _ending(runs: Sequence[Placed]) -> tuple[Artefact, ...]:
    """Return what ends these runs, under what it ends and what may be lost."""
    of_slurm = [one for one in runs if scheduler(one.run_id) == "slurm"]
    of_kubernetes = [one for one in runs if scheduler(one.run_id) == "kubernetes"]
    return lines(
        "end",
        {scheduler(one.run_id) for one in runs},
        ending="\n".join((*map(_warning, of_slurm), scancel(of_slurm))),
        deleting="\n".join(line for one in of_kubernetes for line in (_warning(one), kubectl_end(one))),
    )


def _warning(one: Placed) -> str:
    idle = length_of_time(1000 * (one.idle_seconds or 0))
    lost = "unsaved state in memory"
    return f"# once its owner agrees: {remark(one.called)} idles for {idle}, and loses {lost}"


def _limits(runs: Sequence[Placed]) -> tuple[Artefact, ...]:
    """Return a limit above the longest that any of these runs worked, by the clock; none where that is not known.

    None also where it is longer than every run was.
    """
    worked = [one.active_seconds for one in runs if one.active_seconds is not None]
    if not worked or len(worked) < len(runs):
        return ()
    seconds = max(worked) * _MARGIN[0] // _MARGIN[1]
    lengths = [
        one.active_seconds + one.idle_seconds
        for one in runs
        if one.active_seconds is not None and one.idle_seconds is not None
    ]
    if len(lengths) == len(runs) and seconds >= max(lengths):  # it would end none of them sooner
        return ()
    of = "it" if len(runs) == 1 else f"the longest of {len(runs)} runs"
    note = f"a quarter above what {of} worked by the clock; a run that takes longer loses what it has not saved"
    return lines("time_limit", runs[0], note=note, limit=time_limit(seconds), seconds=seconds)


@dataclass(frozen=True, slots=True)
class Waking:
    """Wakings that were seen, the middle one and the one that nine of ten did not exceed, in seconds."""

    seen: int
    p50_seconds: int
    p90_seconds: int


def waking(session: Session, end_us: int) -> Waking | None:
    """Return how long hosts took to wake in the quarter before `end_us`; None where too few were seen to wake."""
    (query,) = statements("recommendations/wake_ups.sql")
    asked: dict[str, object] = {"since": end_us - _BACK_US, "end": end_us, "powering_up": _POWERING_UP}
    seen, p50, p90 = session.row(query, asked)
    return Waking(seen, p50 // 1_000_000, p90 // 1_000_000) if seen >= _LEAST_WAKINGS else None


def find_free_hosts(session: Session, site: Site, start_us: int, end_us: int) -> Iterator[Proposal]:
    """Yield a change for each group of hosts that nobody used, by its name; none while a run waits for its kind."""
    groups: dict[tuple[str, str], list[Host]] = defaultdict(list)
    wanted = {wait.sku for wait in site.waiting}
    for host in site.hosts.values():
        if host.is_always_free and host.state in (None, "up") and not wanted & {host.sku, None}:
            groups[_group_of(host), host.purchase_option or "unknown"].append(host)
    idle = [host.node for hosts in groups.values() for host in hosts]
    (select,) = statements("recommendations/idle_power.sql")
    rows = session.rows(select, {"nodes": idle, "start": start_us, "end": end_us}) if idle else []
    wakes = waking(session, end_us) if idle else None
    for (group, option), hosts in sorted(groups.items()):
        yield _idle_hosts(site, group, option, hosts, dict(rows), wakes)


def _group_of(host: Host) -> str:
    return host.node_group or host.sku or "hosts"


def _idle_hosts(
    site: Site, group: str, option: str, hosts: Sequence[Host], watts: dict[str, float], wakes: Waking | None
) -> Proposal:
    nodes = [host.node for host in hosts]
    gpus = sum(host.gpus for host in hosts)
    by_use = option in BY_USE
    known = [watts[node] for node in nodes if node in watts]
    over = told_over_us(site.end_us - site.start_us) // SECOND_US
    kwh = sum(known) * over / _JOULES_A_KWH
    drawn = f"{kwh:,.0f} kWh {over_words(over)} at the GPUs of {len(known)} of them, measured"
    alike = sum(_group_of(host) == group for host in site.hosts.values())
    facts = {
        "nodes": len(nodes),
        "names": nodes,
        "group": group,
        "gpus": gpus,
        "option": option,
        "drawn": drawn if known else "power not measured",
    }
    return proposal_of(
        *(("scale_in",) if by_use else ("power_down", "scale_in")),
        facts=facts,
        saves=_saved(site, hosts) if by_use else checks.NOTHING,
        artefacts=lines(
            "power_down",
            {scheduler(run_id) for run_id in site.runs},
            nodes=nodes,
            group=group,
            before=alike,
            after=alike - len(nodes),
        ),
        move=Move(site.place_on(nodes, gpus, hosts[0].sku), None),
        constraints=(
            Constraint("no run waits", True, "no run waits for their kind at the end of the period"),
            Constraint("billed by use", by_use, f"purchase option: {option}")
            if by_use
            else Constraint("billed by use", None, f"purchase option: {option}; energy is saved, not GPU-hours"),
            _wake_up(wakes),
        ),
        subject=f"{group}, {option}",
        cause="free",
        confidence="high" if hosts[0].state else "medium",
    )


def _wake_up(wakes: Waking | None) -> Constraint:
    if wakes is None:
        return Constraint("wake-up", None, _WAKE_UP)
    middle, most = duration(wakes.p50_seconds), duration(wakes.p90_seconds)
    return Constraint("wake-up", True, f"median {middle}, nine of ten within {most} ({wakes.seen} observed)")


def _saved(site: Site, hosts: Sequence[Host]) -> Saved:
    period = site.end_us - site.start_us
    money = [host.micros for host in hosts]
    paid = None if None in money else recovered(sum(each or 0 for each in money), period, _AGAIN)
    return Saved(recovered(sum(host.free_ms for host in hosts), period, _AGAIN), paid)
