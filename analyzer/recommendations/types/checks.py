"""What all proposals say alike: checks, what a change saves that stands on no finding, what requests wait for."""

from collections.abc import Iterable, Sequence

from analyzer.recommendations.recommendation import Constraint, Latency, Range, Saved, Share, recovered
from analyzer.recommendations.site import Host, Placed, Site
from analyzer.sizing.memory import Need
from analyzer.text.words import counted, gib, some

# What no scheduler tells us; a placement that was found must still pass its scheduler.
UNTOLD = Constraint(
    "rules of the scheduler", None, "its taints, quotas, licenses and reservations for others are unknown"
)

# What prevents a loss, or is booked in another finding, claims no second twice.
NONE = Range(0, 0, 0)
NOTHING = Saved(NONE, NONE)
NO_TIMES = "its stack reports no first-token times"


def cores(site: Site, placed: Placed, per_gpu: int) -> Constraint:
    """Say whether each of a run's hosts has the cores that it would have for each GPU."""
    told, held = [], True
    for node, gpus in zip(placed.hosts, placed.gpus_on or (placed.gpus_per_host,) * len(placed.hosts), strict=True):
        host, left = site.hosts.get(node), site.cores_left(node, placed.run_id)
        if host is None or host.cpu_cores is None:
            return Constraint("cores", None, f"{node}: unknown")
        if left is None:
            return Constraint("cores", None, f"{node}: the allocation of the runs beside it is unknown")
        held = held and per_gpu * gpus <= left
        told.append(f"{node}: {per_gpu * gpus} needed, {left:.0f} not allocated to others")
    return Constraint("cores", held, some(told))


def host_memory(placed: Placed, hosts: Sequence[Host]) -> Constraint:
    """Say whether hosts have the memory that the run had in use on one, at the most."""
    if placed.host_bytes is None:
        return Constraint("memory", None, "what the run uses on its hosts is unknown")
    for host in hosts:
        if host.memory_bytes is None:
            return Constraint("memory", None, f"{host.node}: unknown")
        if host.memory_bytes < placed.host_bytes:
            told = f"{host.node}: {gib(placed.host_bytes)} in use so far, {gib(host.memory_bytes)} there"
            return Constraint("memory", False, told)
    return Constraint("memory", True, f"no more than {gib(placed.host_bytes)} in use on one host so far, more there")


def known_nvme(hosts: Sequence[Host]) -> Constraint:
    """Say whether hosts have local NVMe, and how much; None where nobody told."""
    silent = [host.node for host in hosts if host.local_nvme_bytes is None]
    if silent or not hosts:
        return Constraint("local NVMe", None, f"not reported whether {some(silent) or 'its hosts'} have any")
    without = [host.node for host in hosts if not host.local_nvme_bytes]
    if without:
        return Constraint("local NVMe", False, f"none known on {some(without)}")
    least = gib(min(host.local_nvme_bytes or 0 for host in hosts))
    return Constraint("local NVMe", None, f"{least} and more there; the size of the input is unknown")


def same_kind(site: Site, placed: Placed, hosts: Sequence[Host]) -> Constraint:
    """Say whether hosts have the run's kind of GPU."""
    own = site.sku_of(placed)
    others = sorted({host.sku or "unknown" for host in hosts if host.sku != own})
    if own is None:
        return Constraint("GPU model", None, "unknown for this run")
    return Constraint("GPU model", not others, f"{own} needed" + (f", {', '.join(others)} there" if others else ""))


def room(wanted: int, hosts: Sequence[Host]) -> Constraint:
    """Say whether so many GPUs of these hosts are free at the end of the period."""
    free = sum(host.gpus_free_now for host in hosts)
    told = f"{counted(wanted, 'GPU')} needed, {free} free at the end of the period"
    return Constraint("free GPUs", free >= wanted, told + (f" on {some([h.node for h in hosts])}" if hosts else ""))


def in_service(hosts: Sequence[Host]) -> Constraint:
    """Say whether hosts take runs: not drained, reserved or down by their scheduler's last word."""
    out = [f"{host.node} is {host.state} ({host.reason or 'no reason given'})" for host in hosts if _is_out(host)]
    silent = [host.node for host in hosts if host.state is None]
    if out:
        return Constraint("in service", False, some(out))
    if silent:
        return Constraint("in service", None, f"their scheduler reports nothing about {some(silent)}")
    return Constraint("in service", True, f"{some([host.node for host in hosts])}: up")


def slice_memory(placed: Sequence[Placed], profile: str, memory_bytes: int) -> Constraint:
    """Say whether runs fit into slices. A full gauge is no proof that they do not: frameworks set memory aside."""
    known = [one.gpu_bytes for one in placed if one.gpu_bytes is not None]
    if len(known) < len(placed) or not known:
        return Constraint("memory of a slice", None, "how much memory they use is unknown")
    if max(known) <= memory_bytes:
        return Constraint(
            "memory of a slice", True, f"no more than {gib(max(known))} in use, {gib(memory_bytes)} in {profile}"
        )
    told = f"up to {gib(max(known))} in use, {gib(memory_bytes)} in {profile}: reserved or needed, only a trial shows"
    return Constraint("memory of a slice", None, told)


def model_memory(need: Need, called: str, memory_bytes: int, site: Site) -> Constraint:
    """Say whether a run's model fits, its weights in 16 bits as usual; where it does not, which kind would hold it."""
    wanted = f"{need.model} takes {gib(need.usual_bytes)} per GPU before activations and cache"
    told = f"{wanted}, {gib(memory_bytes)} in {called}"
    if need.usual_bytes <= memory_bytes:
        return Constraint("its model", True, told)
    larger = {host.sku: host.gpu_memory_bytes for host in site.hosts.values() if host.sku and host.gpu_memory_bytes}
    would = sorted((size, sku) for sku, size in larger.items() if size >= need.usual_bytes)
    holds = f"{would[0][1]} would hold it" if would else "no GPU model of the fleet would hold it"
    if need.least_bytes > memory_bytes:
        return Constraint("its model", False, f"{told}, and {gib(need.least_bytes)} even in 4 bits; {holds}")
    return Constraint("its model", None, f"{told}: it must be quantized; else {holds}")


def memory_for_workers(site: Site, placed: Placed) -> Constraint:
    """Say whether a run's hosts have room for what twice its loader workers may keep in memory: at most twice."""
    if placed.host_bytes is None:
        return Constraint("memory", None, "what the run uses on its hosts is unknown")
    known = [host.memory_bytes for host in site.of_run(placed) if host.memory_bytes is not None]
    if len(known) < len(placed.hosts):
        return Constraint("memory", None, "how much its hosts have is unknown")
    told = (
        f"{gib(placed.host_bytes)} in use on one host at its peak, {gib(min(known))} there; twice the workers may "
        "double it"
    )
    return Constraint("memory", True if 2 * placed.host_bytes <= min(known) else None, told)


def of_runs(runs: list[Placed], site: Site, share: Share) -> Saved:
    """Return a share of what runs held in the period, as an amount in the span that savings are told of."""
    period = site.end_us - site.start_us
    micros = [one.held_micros for one in runs]
    total = None if None in micros else sum(each or 0 for each in micros)
    return Saved(
        recovered(sum(one.held_ms or 0 for one in runs), period, share),
        None if total is None else recovered(total, period, share),
    )


def money_of_runs(runs: list[Placed], site: Site, share: Share) -> Saved:
    """Return a share of what runs cost in the period, and no GPU time: the same hours, at another price."""
    return Saved(NONE, of_runs(runs, site, share).micros)


def latency(site: Site, runs: Iterable[Placed], after_seconds: float | None, told: str) -> Latency | None:
    """Return the latency of the first of these runs that serves, now and after; None where none of them does.

    Now is the P99 of first tokens of the interval in the middle; `told` says what is known of it afterwards.
    """
    serving = [one for one in runs if one.run_id in site.services or one.stage == "serving"]
    if not serving:
        return None
    said = site.services.get(serving[0].run_id)
    if said is None or said.p99_seconds is None:
        untold = NO_TIMES if site.looks_at("services") else "its stack's metrics were not checked"
        return Latency(None, after_seconds, said.slo_seconds if said else None, f"{untold}; {told}")
    worst = "" if said.worst_seconds is None else f"now {said.worst_seconds:.3g} s in its worst 5% of intervals; "
    return Latency(said.p99_seconds, after_seconds, said.slo_seconds, worst + told)


def _is_out(host: Host) -> bool:
    return host.state in ("drained", "reserved", "down")
