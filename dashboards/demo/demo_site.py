"""The demo site's settings, written beside its store so that every reading command finds them."""

from pathlib import Path

from analyzer.settings.settings import SETTINGS_NAME

_FILES = {
    SETTINGS_NAME: """# The demo fleet: every figure is invented.
[analyzer]
cluster = "alpha"
timezone = "Europe/Berlin"
prices = "prices.toml"
teams = "teams.toml"
""",
    "prices.toml": """# What the demo fleet pays, by an imaginary contract.
currency = "USD"

[[price]]
sku = "H100-80GB"
purchase_option = "reserved"
usd_per_gpu_hour = 2.60
from = 2026-01-01
source = "imaginary contract"
as_of = 2026-11-01

[[price]]
sku = "A100-80GB"
purchase_option = "owned"
usd_per_gpu_hour = 1.10
from = 2026-01-01
source = "imaginary books: depreciation, power, hall"
as_of = 2026-11-01

[[energy]]
pue = 1.30
carbon = "DEU"
from = 2026-01-01
source = "imaginary hall"
as_of = 2026-11-01
""",
    "teams.toml": "# Whose runs they are, by Slurm account.\n"
    + "".join(
        f'\n[[rule]]\nteam = "team-{name}"\naccount = "{name}"\nfrom = 2026-01-01\n'
        for name in ("nlp", "vision", "search", "speech")
    ),
}


def write_settings(directory: Path) -> None:
    """Write settings, prices and teams into a directory; what is there already stays."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        path = directory / name
        if not path.exists():
            path.write_text(text, encoding="utf-8")
