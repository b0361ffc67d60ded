"""Generated bills of fifteen dialects against the truth that they were made of (bench/bench_dialects.py: 10,000)."""

from pathlib import Path
from random import Random

import pytest

from tests.analyzer.finops.bill_dialects import DIALECTS, Dialect, faults, make_bill

BILLS = 25  # of each dialect


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_a_bill_says_what_it_was_made_of_or_is_refused(dialect: Dialect, tmp_path: Path) -> None:
    """Prices and hours to the cent, every line counted once, and never a match of what differs."""
    for seed in range(BILLS):
        random = Random(seed)
        made = make_bill(random, dialect, tmp_path)
        found = faults(random, made)
        assert not found, f"{dialect.name}, seed {seed}: {found}"
