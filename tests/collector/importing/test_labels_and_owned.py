"""What nobody declares: holders by an exporter's labels alone, and ownership by what was seen."""

from collector.importing.allocation_file import of_holders
from collector.importing.history import bring, own
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, Fleet
from tests.collector.importing.site import Site, T

Row = dict[str, object]


def held(gpu: str, start: int, end: int, **who: str) -> Row:
    """Return a stretch of scrapes with the same labels."""
    row = {"node": "n1", "gpu_uuid": gpu, "started_at": start, "ended_at": end}
    return row | {name: who.get(name) for name in ("namespace", "pod", "container", "hpc_job")}


def test_a_pod_is_a_run_of_its_own_and_a_job_its_number(site: Site) -> None:
    """No owner and no account is known; the GPUs are."""
    rows = [
        held("n1-0", T + HOUR, T + 3 * HOUR, namespace="ml", pod="train-0"),
        held("n1-1", T + HOUR, T + 3 * HOUR, namespace="ml", pod="train-0"),
        held("n1-2", T, T + HOUR, hpc_job="81234"),
        held("n1-2", T + 5 * HOUR, T + 6 * HOUR),
    ]
    bring(site.store, of_holders(rows, "prod", T, T + DAY))
    assert site.allocations("run_id", "gpu_uuid", "started_at", "ended_at", "account", "requested_gpus") == [
        ("kubernetes/prod/ml.train-0", "n1-0", T + HOUR, T + 3 * HOUR, "ml", 2),
        ("kubernetes/prod/ml.train-0", "n1-1", T + HOUR, T + 3 * HOUR, "ml", 2),
        ("slurm/prod/81234", "n1-2", T, T + HOUR, None, 1),
    ]


def test_a_short_silence_ends_no_run_and_a_long_one_begins_another(site: Site) -> None:
    """Labels come with samples, and a scrape may fail; a name may be used again the next day."""
    rows = [
        held("n1-0", T, T + HOUR, pod="a"),
        held("n1-0", T + HOUR + 5 * MINUTE, T + 2 * HOUR, pod="a"),
        held("n1-0", T + 9 * HOUR, T + DAY, pod="a"),
    ]
    bring(site.store, of_holders(rows, "prod", T, T + DAY))
    assert site.allocations("attempt", "started_at", "ended_at") == [
        (0, T, T + 2 * HOUR),
        (1, T + 9 * HOUR, None),
    ]


def owned(fleet: Fleet) -> list[tuple[object, ...]]:
    """Return who is owned from when until when."""
    with fleet.store.session() as session:
        return session.rows("SELECT gpu_uuid, owned_from, owned_until FROM ownership ORDER BY ALL")


def seen(*spans: tuple[str, int, int, int]) -> Fleet:
    """Return a fleet whose GPUs were seen: UUID, number, from, until."""
    fleet = Fleet()
    for uuid, index, start, end in spans:
        row = {"node": "n1", "started_at": start, "ended_at": end, "gpu_uuid": uuid, "gpu_index": index}
        fleet.add("inventory", [row | {"sku": "H100-80GB"}])
        fleet.sample("n1", uuid, start, end, every=HOUR)
    return fleet


def test_what_was_seen_is_owned_from_the_first_day_on() -> None:
    """A host whose metrics begin late was not measured before, rather than absent: the sum is over the whole span."""
    fleet = seen(("a", 0, T, T + DAY), ("b", 1, T + 6 * HOUR, T + DAY))
    assert own(fleet.store, T, "prometheus") == 2
    assert owned(fleet) == [("a", T, None), ("b", T, None)]
    fleet.analyze()
    assert sum(fleet.states().values()) == 2 * DAY // 1000
    assert fleet.states()["unobserved", "agent_down"] == 6 * HOUR // 1000


def test_owning_twice_adds_nothing_and_an_earlier_history_is_owned_too() -> None:
    """The second month that is brought lies before the first."""
    fleet = seen(("a", 0, T, T + DAY))
    own(fleet.store, T, "prometheus")
    assert own(fleet.store, T, "prometheus") == 0
    assert own(fleet.store, T + HOUR, "prometheus") == 0
    assert own(fleet.store, T - DAY, "prometheus") == 1


def test_a_board_takes_the_place_of_another() -> None:
    """Nine GPUs in a month are not nine that are owned at once."""
    fleet = seen(("a", 0, T, T + 8 * HOUR), ("b", 0, T + 10 * HOUR, T + DAY), ("c", 1, T, T + DAY))
    own(fleet.store, T, "prometheus")
    assert owned(fleet) == [("a", T, T + 10 * HOUR), ("b", T + 10 * HOUR, None), ("c", T, None)]


def test_what_somebody_declared_is_left_alone() -> None:
    """Owned is declared, not discovered: a fleet file knows when a GPU was bought."""
    fleet = seen(("a", 0, T, T + DAY))
    fleet.own("n1", ["a"])
    before = owned(fleet)
    assert own(fleet.store, T - DAY, "prometheus") == 0
    assert owned(fleet) == before
