"""A small site whose one job recurs: twelve runs over two weeks, and from the second week on with more cores."""

from analyzer.recommendations.lifecycle.prediction import Amount, Prediction, PredictionSpan, Versions
from analyzer.settings.settings import Settings
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

RUNS = 6  # in each week
HOURS = 10  # each
END = MONDAY + 14 * DAY
NEXT_MONDAY = MONDAY + 7 * DAY
VARYING = (0.97, 1.03, 0.99, 1.01, 0.98, 1.02)  # in either week alike, so that a saving can be worked out by hand
STALLED = {"utilization_ratio": 0.5, "utilization_zero_ratio": 0.5, "sm_active_ratio": 0.45}


def recurring(tokens_after: float = 1.25, cores_after: float = 16.0) -> Fleet:
    """Return the site, not analysed yet: tokens an hour rise by this factor in the second week."""
    fleet = Fleet()
    for node, gpu in (("n1", "G1"), ("n2", "G2")):
        fleet.own(node, [gpu])
        fleet.add("inventory", [{"node": node, "started_at": MONDAY, "ended_at": MONDAY + 1, "rack": "a"}])
    for number in range(2 * RUNS):
        week, place = divmod(number, RUNS)
        begin = MONDAY + week * 7 * DAY + place * DAY + HOUR
        rate = 1_000_000 * (tokens_after if week else 1.0) * VARYING[place]
        one_run(fleet, f"slurm/alpha/{100 + number}", begin, rate, cores_after if week else 8.0)
    fleet.sample("n2", "G2", MONDAY, END, every=HOUR)
    fleet.hold("slurm/alpha/99", "n2", ["G2"], MONDAY, END, name="other", exit_status="completed")
    return fleet


def one_run(fleet: Fleet, run: str, begin: int, tokens_an_hour: float, cores: float) -> None:
    """Let one run of the job go for ten hours, saying its tokens; half of its time it waits for input."""
    end = begin + HOURS * HOUR
    fleet.hold(run, "n1", ["G1"], begin, end, name="vit-large", exit_status="completed")
    fleet.sample("n1", "G1", begin, end, every=10 * MINUTE, **STALLED)
    hours = range(begin, end, HOUR)
    here = {"node": "n1", "run_id": run}
    fleet.add(
        "progress",
        [here | {"started_at": at, "ended_at": at + HOUR, "tokens": int(tokens_an_hour)} for at in hours],
    )
    fleet.add(
        "run_samples",
        [
            here | {"started_at": at, "ended_at": at + 10 * MINUTE, "cores_allotted": cores, "cpu_seconds": 600 * cores}
            for at in range(begin, end, 10 * MINUTE)
        ],
    )


def read(fleet: Fleet, begin: int, kind: str) -> None:
    """Let the job's host read ten hours long over a network mount, or from its own disk."""
    hours = range(begin, begin + HOURS * HOUR, HOUR)
    row = {"node": "n1", "device": "/data", "mount_kind": kind, "read_bytes": 10**12}
    fleet.add("disk_samples", [row | {"started_at": at, "ended_at": at + HOUR} for at in hours])


def prediction(kind: str = "more_cpu", **changed: object) -> Prediction:
    """Return what was predicted of the first week: a fifth of sixty GPU-hours, at 2.60 an hour."""
    held = RUNS * HOURS
    hour_ms, price = 3_600_000, 2_600_000
    facts: dict[str, object] = {
        "recommendation_id": "r-2hd4a",
        "made_at": NEXT_MONDAY,
        "span": PredictionSpan(MONDAY, NEXT_MONDAY, "2025-W46"),
        "kind": kind,
        "subject": f"vit-large ({RUNS})",
        "team": None,
        "title": "twice the loader workers per rank",
        "finding_ids": ("f-aaaaa",),
        "run_ids": tuple(f"slurm/alpha/{100 + number}" for number in range(RUNS)),
        "nodes": (),
        "saves_milliseconds": {"p20": 6 * hour_ms, "p50": 12 * hour_ms, "p80": 15 * hour_ms},
        "saves_micros": {"p20": 6 * price, "p50": 12 * price, "p80": 15 * price},
        "lost": Amount(30 * hour_ms, 30 * price),
        "held": Amount(held * hour_ms, held * price),
        "versions": Versions("s", "r", "p"),
    }
    return Prediction(**(facts | changed))  # type: ignore[arg-type]


def analysed(fleet: Fleet, settings: Settings | None = None) -> Fleet:
    """Return the site with its ledger."""
    fleet.analyze(now=END + 30 * DAY, settings=settings)
    return fleet
