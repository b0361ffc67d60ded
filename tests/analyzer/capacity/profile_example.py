"""A profile for tests: three fine-tuning runs that wait for input, as on the drawn page; every figure is invented."""

from analyzer.capacity.profile.facts import (
    SCHEMA,
    Alternative,
    CapacityProfile,
    CheckedChange,
    Communication,
    DataPath,
    Distribution,
    Energy,
    Free,
    Holding,
    Memory,
    OpenAdvice,
    Provenance,
    Record,
    Represented,
    Scale,
    Spread,
    StateHours,
    UnitCost,
)

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
SINCE = 1_792_965_600 * SECOND  # 2026-10-26 00:00 Europe/Berlin
UNTIL = SINCE + 19 * DAY
HOUR_MS = 3_600_000
PRICE = 2_600_000
SKU = "H100-80GB"


def booked(klass: str, state: str, cause: str | None, hours: float) -> StateHours:
    """Return GPU time of one state at the price of the example."""
    return StateHours(klass, state, cause, round(hours * HOUR_MS), round(hours * PRICE))


BOOKED = (
    booked("useful", "productive", "compute", 1549.1),
    booked("avoidable", "starved", "preprocessing", 1285.8),
    booked("avoidable", "held_idle", "held_memory", 19.0),
    booked("overhead", "communicating", "collective", 188.2),
    booked("overhead", "checkpointing", "storage", 78.2),
    booked("overhead", "starting", "model_load", 27.1),
    booked("unknown", "unexplained", None, 16.0),
    booked("unknown", "unobserved", "gap", 4.6),
)


def run(identity: str, first_day: int) -> Represented:
    """Return one of its runs, each a third of the time."""
    started = SINCE + first_day * DAY
    ms, micros = 1056 * HOUR_MS, 1056 * PRICE
    return Represented(
        f"slurm/alpha/{identity}", "llama-sft", "fine_tuning", SKU, 16, started, started + 66 * HOUR, ms, micros
    )


EXAMPLE = CapacityProfile(
    schema=SCHEMA,
    made=Provenance(UNTIL + 8 * DAY, "collector", "alpha", "0.1.0", "2026-11-22b", "2026-11-01"),
    currency="USD",
    timezone="Europe/Berlin",
    team="team-nlp",
    project=None,
    since_us=SINCE,
    until_us=UNTIL,
    runs=(run("81234", 14), run("80417", 7), run("80120", 0)),
    booked=BOOKED,
    milliseconds=sum(each.milliseconds for each in BOOKED),
    micros=sum(each.micros or 0 for each in BOOKED),
    measured_ratio=0.9985,
    at_zero_ratio=0.031,
    distributions=(
        Distribution("utilization_ratio", SKU, 0.11, 0.62, 0.99, 1.0),
        Distribution("sm_active_ratio", SKU, 0.05, 0.47, 0.83, 0.91),
        Distribution("power_watts", SKU, 141.0, 398.0, 621.0, 699.5),
    ),
    memory=(Memory(SKU, 71 * 2**30, 80 * 2**30),),
    scaling=(Scale(8, 2, 8400.0, "tokens", 1.0), Scale(16, 3, 15456.0, "tokens", 0.92)),
    scaling_of="llama-sft",
    knee_gpus=None,
    data_path=DataPath(0.406, "preprocessing", 64, 0.98, 0.16, 0.83e9, 0.21e9),
    communication=Communication(1, 912 * 10**12, 41 * 10**12, 0, 0.059),
    alternatives=(
        Alternative("A100-80GB", "cheaper GPU", False, None, 1_100_000, "no run of this work on A100-80GB"),
        Alternative(SKU, "MIG slice 3g.40gb", False, False, None, "71 of 80 GB were held at the peak"),
    ),
    advice=(
        OpenAdvice(
            "r-3mx8",
            "llama-sft: 8 loader workers per rank, not 4",
            "loader_workers",
            ("llama-sft",),
            Spread(900 * HOUR_MS, 1097 * HOUR_MS, 1200 * HOUR_MS),
            Spread(1400, 1530, 1610),
            Spread(840 * SECOND, 1022 * SECOND, 1118 * SECOND),
            "DataLoader(num_workers=8)",
        ),
    ),
    checked=(CheckedChange("r-77aa", "prep-7b: pin memory", 410 * SECOND, 388 * SECOND, True),),
    record=Record(9, 7),
    holdings=(Holding(SKU, 71.4, 0.1, 16.0), Holding("A100-80GB", 8.0, 2.5, 0.0)),
    free=(Free(SKU, 128, 24.2, 17, "2026-11-11", 3), Free("A100-80GB", 64, 12.0, 4, "2026-11-12", 0)),
    unit_costs=(
        UnitCost("slurm/alpha/81234", "tokens", 3_660_000_000, 1056 * PRICE),
        UnitCost("slurm/alpha/80417", "tokens", 3_655_000_000, 1056 * PRICE),
        UnitCost("slurm/alpha/80120", "tokens", 3_710_000_000, 1056 * PRICE),
    ),
    energy=Energy(4_503_600_000, 5_854_680_000, 619_620, "PUE 1.30; 381 g/kWh (Germany, 2023)"),
    caveats=("A100-80GB was not tried.", "Tokens are as the runs report them."),
)
