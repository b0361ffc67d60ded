"""A store filled with the demo fleet: every batch encoded, decoded, checked and landed as if it had travelled."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from agent.wire.units import HOUR_MS
from collector.pipeline.batch_commit import BatchCommit
from collector.pipeline.decoding.batch import Batch, decode
from collector.store.database import Store
from simulator.batches import batches
from simulator.fleet import Fleet
from simulator.send import encode_batch
from simulator.site import alpha_site

GROUP = 64  # batches in one commit


def fill(store: Store, fleet: Fleet, every: int = HOUR_MS) -> int:
    """Land every batch of the fleet, of so many milliseconds each; return how many rows of gpu_samples there were."""
    with BatchCommit(store) as batch_commit, store.session() as session:
        arriving = _decoded(fleet, every)
        while group := list(islice(arriving, GROUP)):
            batch_commit.land(group)
        store.checkpoint()
        return int(session.row("SELECT count(*) FROM gpu_samples")[0])


def _decoded(fleet: Fleet, every: int) -> Iterator[Batch]:
    for batch in batches(fleet, every=every):
        yield decode(encode_batch(batch), batch.sent_at)


def demo_fleet(seed: int, every: int, last_day_every: int | None = None) -> Fleet:
    """Return the demo fleet of a seed."""
    return Fleet(alpha_site(seed, every, last_day_every))


def prices_beside(directory: Path) -> Path:
    """Write the demo's prices and return the file."""
    path = directory / "prices.toml"
    rows = (("H100-80GB", "reserved", "2.60"), ("A100-80GB", "owned", "1.10"))
    path.write_text(
        "\n".join(
            f'[[price]]\nsku = "{sku}"\npurchase_option = "{option}"\nusd_per_gpu_hour = {price}\nfrom = 2026-01-01\n'
            f'source = "SCREENS.md, invented"\nas_of = 2026-11-01\n'
            for sku, option, price in rows
        )
    )
    return path
