"""One request and one profile for all tests of the gate: the figures of the weekly report's imaginary site."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from analyzer.capacity.gate.decided import Decided
from analyzer.capacity.gate.policy import Policy, read_policy
from analyzer.capacity.gate.policy_check import check_request
from analyzer.capacity.gate.request import Request, request_of
from analyzer.capacity.gate.supply import Supply
from analyzer.capacity.profile.facts import (
    SCHEMA,
    Alternative,
    CapacityProfile,
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
)
from analyzer.capacity.profile.signature import ReadProfile, TrustedKey

HOUR_MS, HOUR_US = 3_600_000, 3_600_000_000
H100, A100 = "H100-80GB", "A100-80GB"
SAID: dict[str, object] = {
    "team": "team-nlp",
    "gpus": 32,
    "sku": H100,
    "weeks": 8,
    "starts": "2026-12-01",
    "why": "three llama-sft runs at a time instead of one, for the March release",
    "work": "llama-sft",
    "growth": 3,
    "gpus_per_run": 16,
    "needed_for": "March",
}
SOON = (datetime.now(UTC).date() + timedelta(days=30)).isoformat()  # a first day, where the clock is the real one
# GPU milliseconds of the week's three runs, by class, state and cause.
_TENTHS = {
    ("useful", "productive", "compute"): 15_491,
    ("avoidable", "starved", "preprocessing"): 12_858,
    ("avoidable", "held_idle", "never_used"): 190,
    ("overhead", "communicating", "collective"): 1_882,
    ("overhead", "checkpointing", "storage"): 782,
    ("overhead", "starting", "model_load"): 271,
    ("unknown", "unexplained", None): 160,
    ("unknown", "unobserved", "gap"): 46,
}
KEYS = (TrustedKey("alpha", "A" * 43 + "=", "collector"), TrustedKey("beta", "B" * 43 + "=", "collector"))


def at(text: str) -> int:
    """Return microseconds UTC of an ISO time in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


NOW = at("2026-11-21T09:00")


def run(number: str, start: str, hours: float) -> Represented:
    """Return a run on 16 H100 at $2.60."""
    began = at(start)
    milliseconds = round(hours * 16 * HOUR_MS)
    micros = milliseconds * 2_600_000 // HOUR_MS
    ended = began + round(hours * HOUR_US)
    return Represented(
        f"slurm/alpha/{number}", "llama-sft", "fine_tuning", H100, 16, began, ended, milliseconds, micros
    )


def profile(**changes: object) -> CapacityProfile:
    """Return the profile of the three runs, with changes."""
    booked = tuple(
        StateHours(klass, state, cause, tenths * HOUR_MS // 10, tenths * 260_000)
        for (klass, state, cause), tenths in _TENTHS.items()
    )
    advice = OpenAdvice(
        "r-3mx8",
        "llama-sft: 8 loader workers per rank, not 4",
        "more_cpu",
        ("llama-sft",),
        Spread(900 * HOUR_MS, 1_097 * HOUR_MS, 1_200 * HOUR_MS),
        Spread(1_396, 1_530, 1_620),
        Spread(842_000_000, 1_022_000_000, 1_142_000_000),
        "num_workers 4 -> 8",
    )
    whole = CapacityProfile(
        schema=SCHEMA,
        made=Provenance(NOW, "collector", "alpha", "0.3.0", "3", "2026-11-01"),
        currency="USD",
        timezone="Europe/Berlin",
        team="team-nlp",
        project=None,
        since_us=at("2026-10-26T00:00"),
        until_us=at("2026-11-13T05:42"),
        runs=(
            run("80120", "2026-10-26T06:00", 60.0),
            run("80417", "2026-11-02T06:00", 67.5),
            run("81234", "2026-11-10T07:12", 70.5),
        ),
        booked=booked,
        milliseconds=31_680 * HOUR_MS // 10,
        micros=8_236_800_000,
        measured_ratio=0.99855,
        at_zero_ratio=0.004,
        distributions=(),
        memory=(Memory(H100, 71 * 2**30, 80 * 2**30),),
        scaling=(Scale(8, 1, 8_400.0, "tokens", 1.0), Scale(16, 3, 15_400.0, "tokens", 0.9167)),
        scaling_of="llama-sft",
        knee_gpus=16,
        data_path=None,
        communication=None,
        alternatives=(Alternative(A100, "a cheaper kind", False, None, 1_100_000, "no run on it"),),
        advice=(advice,),
        checked=(),
        record=Record(9, 7),
        holdings=(Holding(H100, 82.0, 0.1, 7.3),),
        free=(Free(H100, 128, 24.0, 17, "2026-11-12", 3), Free(A100, 64, 12.0, 8, "2026-11-12", 0)),
        unit_costs=(),
        energy=None,
        caveats=(),
        chosen="3 runs, named by the requester",
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def read(one: CapacityProfile | None = None, state: str = "trusted") -> ReadProfile:
    """Return a profile as the reader returns one that alpha signed, or one in another state."""
    whole = one or profile()
    by = "alpha" if state == "trusted" else None
    key = None if state == "unsigned" else "7f3a91c2d4e5f607"
    return ReadProfile(whole, state, by, key, "5d1f" + "0" * 56 + "c07e", "signed by alpha; unchanged")  # type: ignore[arg-type]


def policy(**changes: object) -> Policy:
    """Return the package's policy with the keys of two sites."""
    return replace(read_policy(), keys=KEYS, **changes)  # type: ignore[arg-type]


def request(**changes: object) -> Request:
    """Return the request, with changes; a key that is None is left out."""
    said = {key: value for key, value in (SAID | changes).items() if value is not None}
    return request_of("request.toml", said)


def decided(one: CapacityProfile | None = None, *, state: str = "trusted", **changes: object) -> Decided:
    """Return what is decided on the request and a profile."""
    return check_request(request(**changes), read(one, state), policy(), Supply(), NOW)
