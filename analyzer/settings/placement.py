"""The table [placement] of the settings: the guards' numbers, and how plans are made; the environment over them."""

from dataclasses import dataclass, field

from analyzer.errors import ConfigError
from analyzer.settings.toml_model import about, keys_of

TABLE = "placement"
HUNDRED = 100


@dataclass(frozen=True, slots=True)
class Guards:
    """The numbers of the guards, the table [placement] of the settings.

    12 hours and 10 percent are the Vertical Pod Autoscaler's (in-recommendation-bounds-eviction-lifetime-threshold,
    pod-update-threshold); that there is a limit on how much is moved at once is the Kubernetes descheduler's
    (maxNoOfPodsToEvictTotal), its size is ours, as is all else.
    """

    least_gain: int = field(
        default=10, metadata=about("a restart is recommended where it gains so much at P20, in whole currency units")
    )
    least_gain_percent: int = field(default=10, metadata=about("and so much of what the restart itself costs"))
    hours_between_moves: int = field(default=12, metadata=about("how long a run is left alone once it was moved"))
    moved_percent: int = field(
        default=5, metadata=about("how much of the fleet's GPUs may be restarted at once; one run may be more")
    )
    rejected_hours: int = field(default=24, metadata=about("how long what was rejected is not recommended again"))
    horizon_days: int = field(default=28, metadata=about("how far ahead a saving counts at most"))
    valid_days: int = field(default=14, metadata=about("how long after its period a recommendation holds"))

    def __post_init__(self) -> None:
        for name in ("least_gain_percent", "moved_percent"):
            if getattr(self, name) > HUNDRED:
                raise ConfigError(f"[{TABLE}] {name} is a share and at most {HUNDRED}, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Advising:
    """How long the whole fleet is planned for, and whether realised savings correct what is assumed; both are ours."""

    plan_seconds: int = field(
        default=10, metadata=about("how long a plan of the whole fleet may be searched for at most; 0 makes none")
    )
    learn_shares: bool = field(
        default=False,
        metadata=about("whether shares that twenty realised cases of a kind show take the place of the assumed ones"),
    )


DEFAULT = Guards()
KEYS = (*keys_of(Guards), *keys_of(Advising))
