"""Free GPUs beside runs that wait: in pieces, kept back, or there to be had."""

from collections.abc import Iterator

from analyzer.findings.health.all_notices import notices_in
from analyzer.findings.health.queues import find_fragmentation
from tests.analyzer.findings.health_fleets import NODES, UNTIL, gpus, hosts, not_judged, noticed, own_notices, train
from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import HOUR, MONDAY, Fleet

RULE = "fleet/fragmentation"

# Side by side each fleet is a queue's: a run is placed on hosts that its queue has used.
one_pass = OnePass(lambda store, _: store.analyze(UNTIL))


def waiting(
    fleet: Fleet, wanted: int = 2, reason: str | None = "Resources", until: int | None = None, number: int = 7
) -> None:
    """Let a run wait from Monday on."""
    row = {"run_id": f"slurm/alpha/{number}", "name": "wide", "submitted_at": MONDAY, "requested_gpus": wanted}
    row |= {"queue": fleet.names_end or None}
    fleet.add("allocations", [row | {"pending_reason": reason, "scheduler": "slurm", "ended_at": until}])


def in_pieces(fleet: Fleet) -> None:
    """Add hosts of which each has one GPU free."""
    hosts(into=fleet)
    for number, node in enumerate(NODES):
        train(fleet, [f"{node}-a"], f"slurm/alpha/2{number}", "small", queue=fleet.names_end or None)


def one_left(fleet: Fleet) -> None:
    """Add hosts of which the last has both GPUs free after the first hour."""
    hosts(into=fleet)
    queue = fleet.names_end
    train(fleet, [gpu for node in NODES[:3] for gpu in gpus(node)], queue=queue)
    train(fleet, gpus(NODES[3]), "slurm/alpha/2", "small", queue=queue, until=MONDAY + HOUR)


def test_gpus_in_pieces_are_noticed() -> None:
    """Four are free and two are wanted, and no host has two."""
    fleet = Fleet()
    in_pieces(fleet)
    waiting(fleet)
    (notice,) = noticed(fleet, RULE)
    assert (notice.rule, notice.confidence) == (f"{RULE}/pieces", "high")
    assert notice.sentence.startswith("12 GPU-hours free while 1 run (wide) waited, on no host as many as they need")
    assert notice.evidence[1].seen == "1 on n1, 1 on n2, 1 on n3, 1 on n4"


def test_the_evidence_names_the_queue_s_own_hosts() -> None:
    """Another queue's host is free too, at another hour even more so: nobody who waits here could have had it."""
    fleet = Fleet()
    hosts(into=fleet)
    for number, node in enumerate(NODES[:3]):
        train(fleet, [f"{node}-a"], f"slurm/alpha/2{number}", "small", queue="wide")
    train(fleet, gpus(NODES[3]), "slurm/alpha/3", "other", queue="other", until=MONDAY + HOUR)
    row = {"run_id": "slurm/alpha/7", "name": "wide", "submitted_at": MONDAY, "requested_gpus": 2, "queue": "wide"}
    fleet.add("allocations", [row | {"pending_reason": "Resources", "scheduler": "slurm"}])
    (notice,) = noticed(fleet, RULE)
    assert notice.evidence[1].seen == "1 on n1, 1 on n2, 1 on n3"


@one_pass
def test_who_waits_for_something_else_is_not_meant(fleet: Fleet) -> Iterator[None]:
    """No packing helps a run that waits for another, or for its quota."""
    in_pieces(fleet)
    for number, reason in enumerate(("Dependency", "QOSMaxGRESPerUser", "BeginTime", "JobHeldUser")):
        waiting(fleet, reason=reason, number=70 + number)
    yield
    assert own_notices(fleet, RULE) == []


@one_pass
def test_too_few_free_gpus_are_no_fragmentation(fleet: Fleet) -> Iterator[None]:
    """Nor is a wait of less than whole hours, nor one that was given up."""
    in_pieces(fleet)
    waiting(fleet, wanted=6)
    waiting(fleet, until=MONDAY + HOUR, number=8)
    yield
    assert own_notices(fleet, RULE) == []


@one_pass
def test_gpus_kept_back_are_noticed(fleet: Fleet) -> Iterator[None]:
    """A drain that nobody ended is the dearest reservation."""
    one_left(fleet)
    fleet.add("node_states", [{"node": "n4", "started_at": MONDAY, "ended_at": UNTIL, "state": "drained"}])
    waiting(fleet)
    yield
    (notice,) = own_notices(fleet, RULE)
    assert (notice.rule, notice.actor) == (f"{RULE}/kept", "capacity")


@one_pass.each(("Priority", "medium"), (None, "low"))
def test_room_that_is_not_given_is_noticed(fleet: Fleet, reason: str | None, confidence: str) -> Iterator[None]:
    """Without a reason of the scheduler's no more than a possibility."""
    one_left(fleet)
    waiting(fleet, reason=reason)
    yield
    (notice,) = own_notices(fleet, RULE)
    assert (notice.rule, notice.confidence) == (f"{RULE}/room", confidence)


@one_pass
def test_hosts_of_other_queues_are_no_room(fleet: Fleet) -> Iterator[None]:
    """A queue is measured by the hosts that it has used: this one has none free, and those about it have."""
    hosts(into=fleet)
    train(fleet, gpus("n1"), queue=fleet.names_end)
    train(fleet, gpus("n2"), "slurm/alpha/3", queue="small")
    waiting(fleet)
    yield
    assert own_notices(fleet, RULE) == []
    with fleet.store.session() as session:
        assert notices_in(session, MONDAY, UNTIL, (find_fragmentation,)).unjudged == ()


def test_without_a_scheduler_waiting_is_not_judged() -> None:
    """Runs that declare themselves have never waited."""
    fleet = hosts()
    train(fleet, gpus("n1"), "declared/n1/x", scheduler="declared")
    assert len(not_judged(fleet, RULE)) == 1
