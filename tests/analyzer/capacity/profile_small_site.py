"""A small site: a run that works, one that is idle, and another team's that takes over a GPU of the first."""

from pathlib import Path

from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.capacity.profile.gather import Source, capacity_profile
from analyzer.capacity.profile.work import ProfileRequest
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Settings
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet

GPUS = tuple(f"GPU-{number}" for number in range(8))
PRICES = """
currency = "USD"
[[price]]
sku = "H100-80GB"
purchase_option = "reserved"
usd_per_gpu_hour = 2.60
from = 2025-01-01
source = "a test"
as_of = 2025-11-01

[[energy]]
pue = 1.30
carbon = "DEU"
from = 2025-01-01
source = "a test"
as_of = 2025-11-01
"""
TEAMS = """
[[rule]]
team = "nlp"
account = "nlp"
from = 2025-01-01
[[rule]]
team = "vision"
account = "vision"
from = 2025-01-01
"""


def settings(folder: Path) -> Settings:
    """Return settings with a price and two teams."""
    prices, teams = folder / "prices.toml", folder / "teams.toml"
    prices.write_text(PRICES)
    teams.write_text(TEAMS)
    return Settings(cluster="alpha", prices=prices, teams=teams)


def small_site(folder: Path, name: str = "sft") -> Fleet:
    """Return eight GPUs over six hours.

    Run 1 works on two for 3.5 hours; run 2 holds two idly; then run 3, another team's, has one of run 1's, and fills
    its memory.
    """
    fleet = Fleet()
    fleet.own("n1", GPUS, purchase_option="reserved")
    board = {"node": "n1", "started_at": MONDAY, "ended_at": MONDAY + HOUR, "sku": "H100-80GB"}
    fleet.add("inventory", [{**board, "gpu_uuid": gpu, "memory_bytes": 80 * 2**30} for gpu in GPUS])
    middle, end = MONDAY + 210 * MINUTE, MONDAY + 6 * HOUR
    fleet.hold("slurm/alpha/1", "n1", GPUS[:2], MONDAY, middle, account="nlp", name=name)
    fleet.hold("slurm/alpha/2", "n1", GPUS[2:4], MONDAY, end, account="nlp", name="idle")
    fleet.hold("slurm/alpha/3", "n1", GPUS[:1], middle, end, account="vision", name="det")
    drawn = {"power_watts": 600.0, "energy_joules": 600.0 * 60}
    idle = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0, "memory_used_bytes": 2**20}
    for gpu in GPUS[:2]:
        fleet.sample("n1", gpu, MONDAY, middle, MINUTE, **drawn, memory_used_bytes=50 * 2**30)
    fleet.sample("n1", GPUS[0], middle, end, MINUTE, **drawn, memory_used_bytes=71 * 2**30)
    fleet.sample("n1", GPUS[1], middle, end, MINUTE, **drawn, **idle)
    for gpu in GPUS[2:]:
        fleet.sample("n1", gpu, MONDAY, end, MINUTE, **drawn, **idle)
    fleet.analyze(end, settings(folder))
    return fleet


def profile_of(fleet: Fleet, folder: Path, asked: ProfileRequest) -> CapacityProfile:
    """Return the profile of some runs of the site, at a fixed moment."""
    own = settings(folder)
    with fleet.store.session() as session:
        return capacity_profile(
            Source(session, own, Reader(session, own).advised, clock=lambda: MONDAY + 7 * HOUR), asked
        )
