"""Free GPUs beside runs that wait: in pieces, kept back, or there to be had."""

from tests.analyzer.findings.health_fleets import NODES, UNTIL, gpus, hosts, not_judged, noticed, train, well
from tests.analyzer.ledger.fleet import HOUR, MONDAY, Fleet


def waiting(
    fleet: Fleet, wanted: int = 2, reason: str | None = "Resources", until: int | None = None, number: int = 7
) -> None:
    """Let a run wait from Monday on."""
    row = {"run_id": f"slurm/alpha/{number}", "name": "wide", "submitted_at": MONDAY, "requested_gpus": wanted}
    fleet.add("allocations", [row | {"pending_reason": reason, "scheduler": "slurm", "ended_at": until}])


def in_pieces() -> Fleet:
    """Return a fleet of which each host has one GPU free."""
    fleet = hosts()
    for number, node in enumerate(NODES):
        train(fleet, [f"{node}-a"], f"slurm/alpha/2{number}", "small")
    return fleet


def test_gpus_in_pieces_are_noticed() -> None:
    """Four are free and two are wanted, and no host has two."""
    fleet = in_pieces()
    waiting(fleet)
    (notice,) = noticed(fleet, "fleet/fragmentation")
    assert (notice.rule, notice.confidence) == ("fleet/fragmentation/pieces", "high")
    assert notice.sentence.startswith("12 GPU-hours free while 1 run (wide) waited, on no host as many as they need")
    assert notice.evidence[1].seen == "1 on n1, 1 on n2, 1 on n3, 1 on n4"


def test_who_waits_for_something_else_is_not_meant() -> None:
    """No packing helps a run that waits for another, or for its quota."""
    fleet = in_pieces()
    for number, reason in enumerate(("Dependency", "QOSMaxGRESPerUser", "BeginTime", "JobHeldUser")):
        waiting(fleet, reason=reason, number=70 + number)
    assert noticed(fleet, "fleet/fragmentation") == []


def test_too_few_free_gpus_are_no_fragmentation() -> None:
    """Nor is a wait of less than whole hours, nor one that was given up."""
    fleet = in_pieces()
    waiting(fleet, wanted=6)
    waiting(fleet, until=MONDAY + HOUR, number=8)
    assert noticed(fleet, "fleet/fragmentation") == []


def test_gpus_kept_back_are_noticed() -> None:
    """A drain that nobody ended is the dearest reservation."""
    fleet = hosts()
    train(fleet, [gpu for node in NODES[:3] for gpu in gpus(node)])
    fleet.add("node_states", [{"node": "n4", "started_at": MONDAY, "ended_at": UNTIL, "state": "drained"}])
    waiting(fleet)
    (notice,) = noticed(fleet, "fleet/fragmentation")
    assert (notice.rule, notice.actor) == ("fleet/fragmentation/kept", "capacity")


def test_room_that_is_not_given_is_noticed() -> None:
    """Without a reason of the scheduler's no more than a possibility."""
    for reason, confidence in (("Priority", "medium"), (None, "low")):
        fleet = hosts()
        train(fleet, [gpu for node in NODES[:3] for gpu in gpus(node)])
        waiting(fleet, reason=reason)
        (notice,) = noticed(fleet, "fleet/fragmentation")
        assert (notice.rule, notice.confidence) == ("fleet/fragmentation/room", confidence)


def test_hosts_of_other_queues_are_no_room() -> None:
    """A queue is measured by the hosts that it has used."""
    fleet = hosts()
    train(fleet, gpus("n1"), queue="big")
    train(fleet, gpus("n2"), "slurm/alpha/3", queue="small")
    row = {"run_id": "slurm/alpha/7", "submitted_at": MONDAY, "requested_gpus": 2, "queue": "big", "scheduler": "slurm"}
    fleet.add("allocations", [row | {"pending_reason": "Resources"}])
    assert noticed(fleet, "fleet/fragmentation") == []


def test_without_a_scheduler_waiting_is_not_judged() -> None:
    """Runs that declare themselves have never waited."""
    fleet = hosts()
    train(fleet, gpus("n1"), "declared/n1/x", scheduler="declared")
    assert len(not_judged(fleet, "fleet/fragmentation")) == 1
    assert not_judged(well(), "fleet/fragmentation") == []
