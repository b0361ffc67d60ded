"""Small sites made by hand, findings about them, and what every proposal must say."""

from dataclasses import replace
from typing import Any

from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.site import Host, Placed, Site
from tests.analyzer.recommendations.valid import check

HOUR_US = 3_600_000_000
GIB = 2**30
H100 = "H100-80GB"
RUN = "slurm/alpha/81234"
POD = "kubernetes/prod/5e1f"


def host(node: str, rack: str | None = "rack-1", free: int = 0, **more: Any) -> Host:
    """Return a host of 8 H100 and 128 cores."""
    facts: dict[str, Any] = {
        "memory_bytes": 2048 * GIB,
        "gpu_memory_bytes": 80 * GIB,
        "gpus_free_now": free,
        "state": "up",
        "topology_source": "labels topology.kubernetes.io/rack",
    }
    return Host(node, rack, H100, 128, 10**13, 8, float(free), **facts | more)


def run(run_id: str = RUN, nodes: tuple[str, ...] = ("n1",), each: int = 8, **more: Any) -> Placed:
    """Return a run of so many GPUs on each of these hosts, which works; on Kubernetes it is a Deployment."""
    gpus = tuple(f"{node}-{index}" for node in nodes for index in range(each))
    facts: dict[str, Any] = {
        "gpus_on": (each,) * len(nodes),
        "gpu_uuids": gpus,
        "name": "train",
        "held_ms": len(gpus) * 168 * 3_600_000,
        "held_micros": len(gpus) * 168 * 2_600_000,
        "gpu_bytes": 30 * GIB,
        "host_bytes": 200 * GIB,
        "idle_ranks": 0,
    }
    if run_id.startswith("kubernetes/"):
        facts |= {"kind": "Deployment", "account": "ml", "members": len(nodes)}
    return Placed(run_id, nodes, len(gpus), **{"cores": 8.0 * len(gpus)} | facts | more)


def site(hosts: list[Host], runs: list[Placed], **more: Any) -> Site:
    """Return a site over a week."""
    return Site(
        {one.node: one for one in hosts},
        {one.run_id: one for one in runs},
        gpu_hosts={gpu: gpu.rsplit("-", 1)[0] for one in runs for gpu in one.gpu_uuids},
        **{"start_us": 0, "end_us": 168 * HOUR_US} | more,
    )


def finding(state: str, cause: str, *run_ids: str, milliseconds: int = 3_600_000 * 40, **more: Any) -> Finding:
    """Return a finding of forty GPU-hours about these runs."""
    return replace(
        Finding(
            "f-1", f"{state}/{cause}", "train", run_ids or (RUN,), "team-nlp", state, cause, cause, milliseconds,
            104_000_000, "high", "run", 0, 1, True, None, "it waits", (), "it does not",
        ),
        **more,
    )  # fmt: skip


def notice(rule: str, *run_ids: str, **more: Any) -> Notice:
    """Return a notice about these runs."""
    return replace(Notice("n-1", rule, "train", "it is so", "run", run_ids=run_ids or (RUN,)), **more)


def sound(proposal: Proposal | None) -> Proposal:
    """Return a proposal that says all that each must: from, to, why, checks, who wins and loses, and valid lines."""
    assert proposal is not None
    for text in (proposal.from_, proposal.to, proposal.why, proposal.losers, proposal.winners, proposal.cost_to_move):
        assert text.strip()
        assert "1 GPUs" not in text.replace("of 1 GPUs", ""), text
        assert "None" not in text, text
    assert proposal.move is not None
    assert proposal.constraints
    assert all(one.told for one in proposal.constraints)
    for place in (proposal.move.from_, proposal.move.to):
        assert place is None or len(place.nodes) == len(place.racks)
    check(proposal)
    return proposal


def text_of(proposal: Proposal, form: str) -> str:
    """Return the lines of one form."""
    return "\n".join(one.text for one in proposal.artefacts if one.form == form)


def held(proposal: Proposal) -> dict[str, bool | None]:
    """Return what was checked, and whether it holds."""
    return {one.what: one.holds for one in proposal.constraints}
