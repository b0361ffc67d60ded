"""What rows of a price file have in common: when they hold, of which GPUs they are, and how those are paid for."""

from analyzer.errors import ConfigError
from analyzer.settings.toml_entry import TomlEntry

PURCHASE_OPTIONS = ("on_demand", "reserved", "spot", "owned")
ANY = "any"


class Dated:
    """A row that holds over a period. Both ends are whole UTC hours in microseconds; None is for good."""

    __slots__ = ()
    starts_at: int
    ends_at: int | None

    def covers(self, at_us: int) -> bool:
        """Say whether it holds at this microsecond."""
        return self.starts_at <= at_us and (self.ends_at is None or at_us < self.ends_at)


class GpuPrice(Dated):
    """A price of GPUs, as it was written or made of other figures. None in what it is of means any."""

    __slots__ = ()
    sku: str | None
    purchase_option: str | None
    node_group: str | None
    provider: str | None
    region: str | None

    @property
    def subject(self) -> tuple[str | None, ...]:
        """Of what it is the price."""
        return (self.sku, self.purchase_option, self.node_group)

    @property
    def place(self) -> tuple[str | None, str | None]:
        """The provider and the region that it names."""
        return (self.provider, self.region)

    @property
    def told(self) -> str:
        """The same in words."""
        return f"{self.sku} ({self.purchase_option or ANY})"


def option_of(entry: TomlEntry, key: str = "purchase_option") -> str | None:
    """Return a row's purchase option, None for any.

    Raises:
        ConfigError: it is missing, or none of them.
    """
    option = entry.text(key)
    if option == ANY:
        return None
    if option not in PURCHASE_OPTIONS:
        raise ConfigError(
            f"{entry.where}: {key!r} must be one of {', '.join((*PURCHASE_OPTIONS, ANY))}, not {option!r}"
        )
    return option
