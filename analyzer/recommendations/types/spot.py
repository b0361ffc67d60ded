"""Training on spot hosts, with the checkpoint cadence that makes it pay: only where both are known of this site.

It pays where the ratio of prices is below the goodput that is left: what saving takes, what each loss of a host throws
away, and what it takes to begin again (J. W. Young, CACM 17(9), 1974, for the interval).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.measures.efficiency.cadence import FAILURES_LEAST, best_interval_seconds, lost_ratio
from analyzer.queries.statements import statements
from analyzer.recommendations.artefacts import kubernetes, slurm
from analyzer.recommendations.artefacts.owner import for_scheduler
from analyzer.recommendations.proposal import RESTART_MS, Proposal
from analyzer.recommendations.recommendation import Artefact, Constraint, Move
from analyzer.recommendations.saving import Share
from analyzer.recommendations.site import Placed, Site
from analyzer.recommendations.types import checks
from analyzer.recommendations.types.amounts import money_of_runs
from analyzer.text.wording import counted, percent, some

if TYPE_CHECKING:
    from collector.store.session import Session

_BACK_US = 28 * 86_400_000_000  # as far back as failures are counted
_RESTART_SECONDS = RESTART_MS / 1000
_ALL = 1000
_GRACE_SECONDS = 120  # what AWS gives before it takes a spot instance; others give 30 s


@dataclass(frozen=True, slots=True)
class Spot:
    """The fleet's own spot hosts of one kind: how often runs were taken off them, in how many microseconds of hosts."""

    sku: str
    taken: int
    node_us: int

    def mtbf_seconds(self, nodes: int) -> float | None:
        """Return the mean time between two losses of a run on so many hosts; None where too few were seen."""
        return self.node_us / self.taken / nodes / 1_000_000 if self.taken >= FAILURES_LEAST else None


def find_changes(session: "Session", site: Site, _start_us: int, end_us: int) -> Iterator[Proposal]:
    """Yield a change for each run that saves its state, is paid by use, and would be cheaper on spot; by run."""
    (select,) = statements("recommendations/spot.sql")
    spots = {row[0]: Spot(*row) for row in session.rows(select, {"start": end_us - _BACK_US, "end": end_us})}
    for placed in site.runs.values():
        spot = spots.get(site.sku_of(placed) or "")
        if spot is not None and placed.is_open and _is_paid_by_use(site, placed):
            proposal = _proposal(site, placed, spot)
            if proposal is not None:
                yield proposal


def _is_paid_by_use(site: Site, placed: Placed) -> bool:
    """Say whether the bill would fall: what is owned or reserved is paid for whoever uses it."""
    return all(host.purchase_option == "on_demand" for host in site.of_run(placed)) and bool(site.of_run(placed))


def ratio_permille(site: Site, sku: str) -> int | None:
    """Return spot's price over that on demand; None where the site's book, or its ledger, does not have both."""
    prices = []
    for option in ("spot", "on_demand"):
        told = site.prices.price(sku, option, max(0, site.end_us - 1))
        is_own = told is not None and told.option == option
        prices.append(told.micros_per_gpu_hour if told is not None and is_own else site.rate(sku, option))
    spot, on_demand = prices
    return None if spot is None or not on_demand else _ALL * spot // on_demand


def goodput(mtbf: float, save: float) -> float:
    """Return the share of time that is left for work on hosts that are taken away so often; all in seconds."""
    return max(0.0, 1 - lost_ratio(best_interval_seconds(mtbf, save), mtbf, save) - _RESTART_SECONDS / mtbf)


def _proposal(site: Site, placed: Placed, spot: Spot) -> Proposal | None:
    known = site.checkpoints.get(placed.run_id)
    save = known.save_seconds.value if known else None
    mtbf = spot.mtbf_seconds(len(placed.hosts))
    ratio = ratio_permille(site, spot.sku)
    if save is None or mtbf is None or ratio is None:
        return None
    left = goodput(mtbf, save)
    if ratio >= _ALL * left:
        return None
    # half and twice as many losses: the mean of a few is no better known than that
    careful, likely, lucky = (_saved(ratio, goodput(times * mtbf, save)) for times in (0.5, 1.0, 2.0))
    share = Share(careful, likely, lucky)
    every = best_interval_seconds(mtbf, save)
    hosts = [host.node for host in site.hosts.values() if host.purchase_option == "spot" and host.sku == spot.sku]
    return Proposal(
        kind="spot",
        title=f"train on spot, with a checkpoint every {every / 60:.0f} min",
        from_=f"{counted(placed.gpus, 'GPU')} on demand on {some(list(placed.hosts))}",
        to=f"{counted(placed.gpus, 'GPU')} on spot, saved every {every / 60:.0f} min (sqrt(2 x MTBF x time to save))",
        why=f"spot costs {percent(ratio)} of the price on demand, "
        f"and {percent(round(_ALL * left))} of its time is left "
        f"for work: a host is lost every {mtbf / 3600:.1f} h to a run of this size, and saving takes {save:.0f} s",
        saves=money_of_runs([placed], site, share),
        artefacts=_lines(placed, round(every), hosts),
        losers=f"its owner's calendar: it takes {100 / max(left, 0.01) - 100:.0f} % longer, and waits for spot hosts",
        winners="the bill",
        move=Move(site.place(placed), site.place_on(hosts[: len(placed.hosts)], placed.gpus, spot.sku)),
        constraints=(
            Constraint("price", True, f"{percent(ratio)} of on demand, below {percent(round(_ALL * left))}"),
            Constraint(
                "losses of hosts", True, f"{spot.taken} in {spot.node_us / 3.6e9:,.0f} host-hours of its own spot hosts"
            ),
            Constraint("checkpoints", True, f"seen: {save:.0f} s each"),
            Constraint("room on spot", None, "what the provider has is not known here"),
            checks.UNTOLD,
        ),
        cost_to_move="what it computes after a checkpoint, each time a host is taken back",
        actor="run",
        subject=placed.called,
        team=placed.team,
        cause="spot",
        run_ids=(placed.run_id,),
        ends_work=True,
    )


def _saved(ratio: int, left: float) -> int:
    return max(0, _ALL - round(ratio / left)) if left > 0 else 0


def _lines(placed: Placed, every: int, hosts: list[str]) -> tuple[Artefact, ...]:
    own = for_scheduler(
        placed,
        lambda: slurm.options(
            "requeue", f"signal=B:TERM@{_GRACE_SECONDS}", f"nodelist={','.join(hosts[: len(placed.hosts)])}"
        ),
        lambda: kubernetes.patch(
            placed, kubernetes.on_nodes(hosts) | {"terminationGracePeriodSeconds": _GRACE_SECONDS}
        ),
    )
    setting = (
        f"# in the run's own settings, by whatever name its trainer has for it\ncheckpoint_interval_seconds = {every}"
    )
    return (*own, Artefact("config", setting))
