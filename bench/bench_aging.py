"""Whether figures change by growing old: the demo's week and a drawn month, aged through every tier by 200 schedules.

Each schedule is a copy of a site whose upkeep and passes are killed or fail at drawn places while it ages by up to 500
days. What its store holds then is held to that of a site that aged in peace; of that one, of every tenth and of those
that differ every reading of the commands and of the API is held to what it was before: the same bytes, or it says what
is not kept. It goes on where it was cut off, as long as the code is the same.
"""

import argparse
import hashlib
import pickle
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from bench.aging.schedule import Played, in_child, peace, play, read
from bench.aging.sites import Aged, demo_week, drawn_month
from bench.machine import ROOT, add_record, keep, machine, told

SCHEDULES = 200
WORK = ROOT / ".tmp" / "aging"
CODE = ("agent", "collector", "analyzer", "dashboards", "simulator", "bench/aging")
SITES: dict[str, Callable[[Path], Aged]] = {"demo": demo_week, "month": partial(drawn_month, seed=1)}


def main() -> int:
    """Make the sites, read them, play what is missing, and tell."""
    parser = argparse.ArgumentParser(prog="make bench-aging", description=__doc__)
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help="half of them of each site")
    parser.add_argument("--sites", nargs="+", choices=SITES, default=list(SITES))
    parser.add_argument("--anew", action="store_true", help="forget what was played before")
    add_record(parser)
    asked = parser.parse_args()
    if asked.anew:
        shutil.rmtree(WORK, ignore_errors=True)
    found = {}
    for name in asked.sites:
        folder = WORK / _edition() / name
        site, before, there, calm = _made(name, folder)
        played = _played(site, before, there, folder, asked.schedules // len(asked.sites))
        found[name] = _summed([calm, *played], len(before))
        print(f"{name}: {found[name]}", flush=True)
    keep("aging", {"machine": machine(), "sites": found}, record=asked.record)
    return told(
        {
            f"{name}: after {one['schedules']} schedules nothing differs unsaid": not one["differ"]
            and not one["rows_left"]
            for name, one in found.items()
        }
    )


def _edition() -> str:
    """Return the hash of the code: what another has found is no answer for this."""
    files = sorted(
        path for part in CODE for path in (ROOT / part).rglob("*") if path.suffix in (".py", ".sql", ".toml")
    )
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _made(name: str, folder: Path) -> tuple[Aged, dict[str, str], dict[str, str], Played]:
    """Return a site, all its readings before it ages, and what it holds when it has aged in peace; made once."""
    kept = folder / "before.pickle"
    if not kept.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        site = in_child(SITES[name], folder / "site")
        assert site is not None
        shutil.copytree(folder / "site", folder / "kept")
        before = in_child(read, site, None) or {}
        kept.write_bytes(pickle.dumps((site, before, *peace(site, folder / "kept", before))))
    made: tuple[Aged, dict[str, str], dict[str, str], Played] = pickle.loads(kept.read_bytes())
    return made


def _played(
    site: Aged, before: dict[str, str], there: dict[str, str], folder: Path, schedules: int
) -> Iterable[Played]:
    for seed in range(schedules):
        file = folder / f"{seed}.pickle"
        if not file.exists():
            began = time.monotonic()
            played = play(site, folder / "kept", seed, before, there)
            file.write_bytes(pickle.dumps(played))
            said = f"{len(played.tables)} tables and {len(played.differ)} of {played.readings} readings differ"
            print(f"{folder.name} {seed}: {said}, {time.monotonic() - began:.0f} s", flush=True)
        yield pickle.loads(file.read_bytes())


def _summed(played: Iterable[Played], readings: int) -> dict[str, object]:
    troubles, differ, left, tables = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    count = compared = said = alike = 0
    for one in played:
        count, compared, said = count + (one.seed >= 0), compared + one.readings, said + one.said
        alike += one.seed >= 0 and not one.tables
        tables.update(one.tables)
        troubles += one.troubles
        differ.update(one.differ.keys())
        left.update(one.left)
    return {
        "schedules": count,
        "hold_what_peace_holds": alike,
        "tables_that_differ": dict(tables),
        "readings_there_are": readings,
        "readings_compared": compared,
        "say_what_is_not_kept": said,
        "differ": dict(differ),
        "rows_left": dict(left),
        "troubles": dict(sorted(troubles.items())),
    }


if __name__ == "__main__":
    sys.exit(main())
