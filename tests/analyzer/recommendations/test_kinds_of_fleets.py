"""Changes that need a fleet to be seen: fragments, hosts that nobody used, spot; and what the site is read from."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent.wire.tables import TABLES
from analyzer.findings.health.all_notices import notices_in
from analyzer.measures.efficiency.checkpoints import Checkpoints, Figure, withheld
from analyzer.prices.price_book import PriceBook
from analyzer.recommendations.proposal import Proposal
from analyzer.recommendations.recommendation import Saved
from analyzer.recommendations.rules import NOTICES
from analyzer.recommendations.site import Feed, Site
from analyzer.recommendations.site_query import read_site
from analyzer.recommendations.types import checkpointing, idle, moves
from tests.analyzer.findings.health_fleets import GB, NODES, TRAINING, UNTIL, gpus, hosts, train
from tests.analyzer.interfaces.test_api_no_samples import FACTS
from tests.analyzer.ledger.copies import made_once
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet, priced
from tests.analyzer.recommendations.sites import held, sound, text_of

WEEK = 7 * DAY


def read(fleet: Fleet, until: int = UNTIL, prices: PriceBook | None = None) -> Site:
    """Return the site of an analysed fleet."""
    with fleet.store.session() as session:
        return read_site(session, MONDAY, until, prices)


def proposed(fleet: Fleet, rule: str) -> Proposal | None:
    """Return what is proposed for the only notice of a rule once the fleet is analysed."""
    fleet.analyze(now=UNTIL)
    return looked_up(fleet, rule)


def looked_up(fleet: Fleet, rule: str) -> Proposal | None:
    """Return what is proposed for the only notice of a rule."""
    site = read(fleet)
    with fleet.store.session() as session:
        (notice,) = [one for one in notices_in(session, MONDAY, UNTIL).notices if one.rule == rule]
    (row,) = [one for one in NOTICES if one.rule == rule]
    return row.propose(notice, site)


def in_pieces(wanted: int = 2, stage_name: str = "small") -> Fleet:
    """Return four hosts of two GPUs, each half free, and a run that waits for whole ones."""
    fleet = hosts()
    for number, node in enumerate(NODES):
        train(fleet, [f"{node}-a"], f"slurm/alpha/2{number}", f"{stage_name}-{number}")
    row = {"run_id": "slurm/alpha/7", "name": "wide", "submitted_at": MONDAY, "requested_gpus": wanted}
    fleet.add("allocations", [row | {"pending_reason": "Resources", "scheduler": "slurm"}])
    return fleet


@made_once
def judged_in_pieces() -> Fleet:
    """Return these hosts as a pass has judged them."""
    fleet = in_pieces()
    fleet.analyze(now=UNTIL)
    return fleet


def test_the_fewest_runs_are_moved_so_that_the_one_that_waits_fits() -> None:
    """Two of four half-free hosts: one small run moves, and the lines name it, its host, and nothing else."""
    found = sound(looked_up(judged_in_pieces(), "fleet/fragmentation/pieces"))
    assert found.kind == "consolidate"
    told, line = text_of(found, "slurm").splitlines()
    assert "small-0" in told
    assert line == "#SBATCH --nodelist=n2"
    assert found.winners == "wide"
    assert (held(found)["room on n2"], held(found)["it fits then"]) == (True, True)
    assert isinstance(found.saves, Saved)
    assert found.saves.milliseconds.p50 > 0


def test_two_hosts_are_cleared_for_a_run_that_needs_two() -> None:
    """Each run goes to a host that is not cleared itself."""
    found = sound(proposed(in_pieces(wanted=4), "fleet/fragmentation/pieces"))
    assert found.move is not None
    assert found.move.from_ is not None
    assert found.move.to is not None
    assert len(found.move.from_.nodes) == 2
    assert not set(found.move.from_.nodes) & set(found.move.to.nodes)
    assert "; then wide on " + ", ".join(found.move.from_.nodes) in found.to


def test_a_service_is_not_moved_for_a_run_that_waits() -> None:
    """Who answers somebody stays; where only services stand in the way, nothing is proposed."""
    fleet = in_pieces(stage_name="chat-serve")
    assert proposed(fleet, "fleet/fragmentation/pieces") is None


def test_nothing_is_moved_once_nobody_waits() -> None:
    """A notice of the week is no reason to move runs today."""
    fleet = in_pieces()
    fleet.add("allocations", [{"run_id": "slurm/alpha/7", "submitted_at": MONDAY, "ended_at": UNTIL - HOUR,
                               "name": "wide", "requested_gpus": 2, "scheduler": "slurm"}])  # fmt: skip
    assert proposed(fleet, "fleet/fragmentation/pieces") is None


@made_once
def ailing() -> Fleet:
    """Return a fleet whose run leaves all tensor cores alone; one board slows for power and has failed rows."""
    slow = {
        "sm_clock_hertz": 1.4e9,
        "sm_clock_reference_hertz": 2.0e9,
        "throttle_power_seconds": 60.0,
        "power_watts": 490.0,
    }
    plain = {"sm_active_ratio": 0.8, "tensor_active_ratio": 0.0, "fp32_active_ratio": 0.5}
    every = {gpu: plain for node in NODES for gpu in gpus(node)}
    fleet = hosts({**every, "n2-a": plain | slow | {"row_remap_failure": True}})
    train(fleet, every)
    fleet.add("inventory", [{"node": gpu.split("-")[0], "gpu_uuid": gpu, "sku": "H100-80GB", "started_at": MONDAY + 1,
                             "ended_at": MONDAY + 2, "power_limit_watts": 500.0 if gpu == "n2-a" else 700.0}
                            for node in NODES for gpu in gpus(node)])  # fmt: skip
    fleet.analyze(now=UNTIL)
    return fleet


def test_a_board_to_be_replaced_is_drained() -> None:
    """From the driver's word to the lines that take its host out, with the run that stays until it ends."""
    found = sound(looked_up(ailing(), "hardware/memory_rows"))
    assert found.title == "drain n2 and service n2-a"
    assert "state=drain" in text_of(found, "slurm")
    assert found.losers == "none until they end: llama-pretrain"


def test_mixed_precision_is_proposed_from_what_the_pipes_did() -> None:
    """SMs busy, tensor cores at rest, FP32 at work: measured, all three."""
    found = sound(looked_up(ailing(), "run/mixed_precision"))
    assert found.kind == "mixed_precision"
    assert "tensor cores 0%" in found.from_


def test_a_service_that_suffers_beside_training_moves_to_a_host_without() -> None:
    """Its latency now stands in the proposal, and which hosts are free."""
    fleet = hosts()
    train(fleet, ["n1-a"], "slurm/alpha/8", "chat-serve", queue="service")
    train(fleet, ["n1-b"], until=MONDAY + 3 * HOUR, queue="gpu")
    row = {"node": "n1", "run_id": "slurm/alpha/8", "slo_seconds": 0.5, "requests": 10}
    fleet.add(
        "service_samples",
        [
            row
            | {"started_at": at, "ended_at": at + MINUTE}
            | {"first_token_seconds_p99": 2.0 if at < MONDAY + 2 * HOUR else 0.1}
            for at in range(MONDAY, UNTIL, MINUTE)
        ],
    )
    found = sound(proposed(fleet, "fleet/mixed"))
    assert (found.kind, found.latency and found.latency.before_seconds) == ("split_serving", 0.1)
    assert found.latency is not None
    assert "now 2 s in its worst 5% of intervals" in found.latency.told
    assert text_of(found, "slurm").startswith("#SBATCH --nodelist=n")


@made_once
def idle_hosts(option: str) -> Fleet:
    """Return a host that works and one that nobody used for 25 hours, both of this purchase option, and priced."""
    fleet = Fleet()
    until = MONDAY + 25 * HOUR
    for node in ("n1", "n2"):
        fleet.own(node, [f"{node}-a"], purchase_option=option)
        fleet.add("inventory", [{"node": node, "started_at": MONDAY, "ended_at": MONDAY + 1, "node_group": "burst"}])
        fleet.sample(node, f"{node}-a", MONDAY, until, every=5 * MINUTE, energy_joules=300 * 80.0)
    fleet.hold(TRAINING, "n1", ["n1-a"], MONDAY, None, name="train")
    with TemporaryDirectory() as folder:
        fleet.analyze(now=until, settings=priced(Path(folder), H100_80GB=2.0))
    return fleet


@pytest.mark.parametrize(("option", "kind"), [("on_demand", "scale_in"), ("reserved", "power_down")])
def test_a_host_that_nobody_used_saves_a_bill_only_where_it_is_billed_by_use(option: str, kind: str) -> None:
    """What is reserved is paid for anyway; then its energy is told, as measured, and nothing is claimed."""
    fleet, until = idle_hosts(option), MONDAY + 25 * HOUR
    site = read(fleet, until)
    with fleet.store.session() as session:
        (found,) = idle.find_free_hosts(session, site, MONDAY, until)
    assert (found.subject, sound(found).kind) == (f"burst, {option}", kind)
    assert "13 kWh per week" in found.why  # 80 W
    assert "nodename=n2 state=power_down" in text_of(found, "slurm")
    assert isinstance(found.saves, Saved)
    assert found.saves.micros is not None
    by_use = 25 * 2_000_000 * WEEK // (25 * HOUR) * 850 // 1000
    assert found.saves.micros.p50 == (by_use if kind == "scale_in" else 0)


def test_hosts_stay_while_a_run_waits_for_one() -> None:
    """It may be the very host that comes next."""
    fleet, until = idle_hosts("on_demand"), MONDAY + 25 * HOUR
    row = {"run_id": "slurm/alpha/7", "submitted_at": MONDAY, "requested_gpus": 2, "scheduler": "slurm"}
    fleet.add("allocations", [row])
    site = read(fleet, until)
    with fleet.store.session() as session:
        assert list(idle.find_free_hosts(session, site, MONDAY, until)) == []


def on_demand(path: Path, taken: int) -> tuple[Fleet, PriceBook]:
    """Return a run on demand that saves every hour, and a spot host off which so many runs were taken in a day."""
    file = path / "prices.toml"
    file.write_text(
        "".join(
            f'[[price]]\nsku = "H100-80GB"\npurchase_option = "{option}"\nusd_per_gpu_hour = {price}\n'
            f'from = 2020-01-01\nas_of = 2025-01-01\nsource = "test"\n'
            for option, price in (("on_demand", 4.0), ("spot", 1.6))
        )
    )
    return _taken_off(taken), PriceBook.read(file)


@made_once
def _taken_off(taken: int) -> Fleet:
    fleet, until = Fleet(), MONDAY + DAY
    for node, option in (("n1", "on_demand"), ("s1", "spot")):
        fleet.own(node, [f"{node}-a"], purchase_option=option)
        fleet.sample(node, f"{node}-a", MONDAY, until, every=5 * MINUTE)
    fleet.hold(TRAINING, "n1", ["n1-a"], MONDAY, None, name="llama-pretrain")
    for number in range(taken):
        start = MONDAY + number * DAY // max(1, taken)
        end = start + DAY // max(1, taken)
        fleet.hold(f"slurm/alpha/9{number}", "s1", ["s1-a"], start, end, name="try", exit_status="preempted")
    fleet.analyze(now=until)
    return fleet


def _looked(fleet: Fleet, book: PriceBook, save_seconds: float | None) -> list[Proposal]:
    site = read(fleet, MONDAY + DAY, book)
    no = withheld("not needed")
    saving = Checkpoints(9, "named", Figure(3600.0), Figure(save_seconds or 0), 1, None, no, no, None, None, None, None)
    site = replace(site, checkpoints={TRAINING: saving} if save_seconds else {})
    with fleet.store.session() as session:
        return list(checkpointing.find_spot_changes(session, site, MONDAY, MONDAY + DAY))


def test_spot_pays_with_the_cadence_that_its_losses_ask_for(tmp_path: Path) -> None:
    """Four losses a day, 60 s to save: every 27 minutes; 40% of the price for 90% of the time."""
    fleet, book = on_demand(tmp_path, taken=4)
    (found,) = _looked(fleet, book, 60.0)
    assert sound(found).title == "train on spot, with a checkpoint every 27 min"
    left = checkpointing.goodput(6 * 3600.0, 60.0)
    assert left == pytest.approx(1 - (2 * 60 / (6 * 3600)) ** 0.5 - 720 / (6 * 3600))
    assert (checkpointing.ratio_permille(read(fleet, MONDAY + DAY, book), "H100-80GB"), 0.85 < left < 0.95) == (
        400,
        True,
    )
    assert "checkpoint_interval_seconds = 1610" in text_of(found, "config")


@pytest.mark.parametrize(("taken", "save"), [(4, None), (2, 60.0), (4, 9_000.0)])
def test_spot_is_not_proposed_on_a_guess(taken: int, save: float | None, tmp_path: Path) -> None:
    """Neither where saving was never seen, nor with too few losses for a mean, nor where saving eats what it spares."""
    fleet, book = on_demand(tmp_path, taken)
    assert _looked(fleet, book, save) == []


def test_without_a_price_of_spot_nobody_is_sent_there(tmp_path: Path) -> None:
    """The ratio of prices is half of the answer."""
    fleet, _ = on_demand(tmp_path, taken=4)
    assert _looked(fleet, PriceBook(), 60.0) == []


def test_the_site_knows_what_is_free_now_and_what_runs_may_use() -> None:
    """Two runs on one host, one that ended, and a host that its scheduler drained."""
    fleet = hosts()
    train(fleet, ["n1-a"], "slurm/alpha/1", "one")
    train(fleet, ["n1-b"], "slurm/alpha/2", "two", until=MONDAY + 2 * HOUR)
    fleet.add(
        "node_states", [{"node": "n3", "started_at": MONDAY, "ended_at": UNTIL, "state": "drained", "reason": "x"}]
    )
    fleet.add("run_samples", [{"node": "n1", "run_id": "slurm/alpha/1", "started_at": at, "ended_at": at + MINUTE,
                               "cores_allotted": 24.0, "memory_used_bytes": 7 * GB}
                              for at in range(MONDAY, UNTIL, MINUTE)])  # fmt: skip
    fleet.analyze(now=UNTIL)
    site = read(fleet)
    assert {node: host.gpus_free_now for node, host in site.hosts.items()} == {"n1": 1, "n2": 2, "n3": 0, "n4": 2}
    assert (site.hosts["n3"].state, site.hosts["n3"].reason) == ("drained", "x")
    assert [one.run_id for one in site.beside("n1")] == ["slurm/alpha/1"]
    assert site.cores_left("n1") == 64 - 24
    assert site.cores_left("n1", "slurm/alpha/1") == 64
    assert (site.runs["slurm/alpha/1"].gpu_bytes, site.runs["slurm/alpha/1"].host_bytes) == (40 * GB, 7 * GB)


def test_the_site_knows_who_feeds_whom() -> None:
    """Flows name hosts; whose run it is follows where one alone was there, and small talk is left out."""
    fleet = hosts()
    train(fleet, ["n1-a"], "slurm/alpha/1", "train")
    train(fleet, ["n2-a"], "slurm/alpha/2", "tokenize")
    train(fleet, ["n3-a"], "slurm/alpha/3", "a")
    train(fleet, ["n3-b"], "slurm/alpha/4", "b")
    row = {"node": "n1", "run_id": "slurm/alpha/1", "started_at": MONDAY, "ended_at": MONDAY + MINUTE}
    fleet.add(
        "flow_samples",
        [
            row | {"peer": peer, "receive_bytes": size}
            for peer, size in (("n2", 5 * GB), ("n3", 9 * GB), ("n4", 7 * GB))
        ],
    )
    fleet.analyze(now=UNTIL)
    assert read(fleet).feeds == {"slurm/alpha/1": (Feed("slurm/alpha/2", "n2", 5 * GB),)}


def test_the_site_knows_whose_power_limit_is_low() -> None:
    """Against what its kind is built for."""
    (one,) = read(ailing()).limited.values()
    assert (one.gpu_uuid, one.limit_watts, one.usual_watts, one.power_watts) == ("n2-a", 500.0, 700.0, 490.0)


def test_fragments_need_a_notice_that_names_the_run() -> None:
    """Another queue's notice is not about this one."""
    fleet = judged_in_pieces()
    with fleet.store.session() as session:
        (notice,) = [n for n in notices_in(session, MONDAY, UNTIL).notices if n.rule == "fleet/fragmentation/pieces"]
    assert moves.consolidate(notice, read(fleet)) is not None
    assert moves.consolidate(replace(notice, run_ids=("slurm/alpha/8",)), read(fleet)) is None


def test_without_samples_the_site_is_still_known() -> None:
    """What they tell is not known then; what the ledger and the facts tell is, and no table of samples is asked."""
    fleet = ailing()
    before = read(fleet)
    with fleet.store.session() as session:
        for table in set(TABLES) - FACTS:
            session.execute(f"DROP TABLE {table}")
        after = read_site(session, MONDAY, UNTIL, with_samples=False)
    assert (after.hosts.keys(), after.racks(NODES)) == (before.hosts.keys(), before.racks(NODES))
    assert before.runs[TRAINING].gpu_bytes == 40 * GB
    assert (after.runs[TRAINING].gpu_bytes, after.runs[TRAINING].hosts) == (None, before.runs[TRAINING].hosts)
