"""The ways of paying for a GPU, as the fleet's ownership and the price file name them."""

from analyzer.errors import ConfigError
from analyzer.settings.toml_entry import TomlEntry

PURCHASE_OPTIONS = ("on_demand", "reserved", "spot", "owned")
ANY = "any"


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
