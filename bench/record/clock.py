"""A wall clock that stands, for every child: two records of the same code differ in nothing then."""

import os
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("standing_clock.c")
NOON_AFTER_THE_DEMO = 1_795_089_600  # 2026-11-19 12:00 UTC: the demo's week is complete, and none of it expired


def standing(folder: Path) -> dict[str, str]:
    """Return the environment in which a child's wall clock stands; what only measures time goes on."""
    library = folder / "standing_clock.so"
    if not library.exists():
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, SOURCE, "-ldl"], check=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("GPULEDGER_", "COLUMNS"))}
    return own | {
        "LD_PRELOAD": str(library),
        "STANDING_EPOCH_SECONDS": str(NOON_AFTER_THE_DEMO),
        "HOME": str(folder),
        "TZ": "UTC",
        "COLUMNS": "80",
        "NO_COLOR": "1",
    }
