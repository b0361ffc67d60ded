"""How right the stage is that telemetry alone gives, over the demo fleet: python bench/bench_stages.py [--store S].

Names, queues and labels are not looked at: only what runs did. The true stage of a run is the archetype that the
simulator plays for it, which the analyzer never sees.
"""

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from analyzer.analysis import analyze
from analyzer.ledger.pending import know_fleet
from analyzer.ledger.run_facts import doings
from analyzer.ledger.stage_telemetry import looks_like
from analyzer.ledger.thresholds import Thresholds
from analyzer.settings.settings import Settings
from bench.demo_store import demo_fleet, fill
from bench.machine import add_record, keep
from collector.store.database import Store
from collector.store.session import Session
from simulator.fleet import plans
from simulator.readings import run_id
from simulator.site import alpha_site

ABSTAINS = "says nothing"
# What an archetype truly is, by its function or else its module; all others are training of no further kind.
TRUE_STAGES = {
    "network_storage_bound": "fine-tuning",
    "offloaded": "fine-tuning",
    "debugging": "interactive",
    "notebook": "interactive",
    "pretraining": "pretraining",
    "finetuning": "fine-tuning",
    "alignment": "alignment",
    "evaluation": "evaluation",
    "preparation": "data preparation",
    "serving": "serving",
}


def main() -> None:
    """Simulate and analyse (or read a store that was), compare, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, help="a store of `gpuledger demo`, already analysed")
    parser.add_argument("--seed", type=int, default=1)
    add_record(parser)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = asked.store or Path(directory) / "demo.duckdb"
        with Store.open(path) as store:
            if asked.store is None:
                fleet = demo_fleet(asked.seed, 60, 10)
                fill(store, fleet)
                analyze(store, Settings(), now_us=fleet.site.started_at + fleet.site.span * 1000)
            with store.session() as session:
                seen = _seen(session)
    confusion = Counter((truth, seen.get(run, ABSTAINS)) for run, truth in _truths(asked.seed).items())
    _show(confusion)
    keep("stages", [[*pair, runs] for pair, runs in sorted(confusion.items())], record=asked.record)


def _seen(session: Session) -> dict[str, str]:
    know_fleet(session, Thresholds())  # how far the store's knowledge reaches
    judged = {run: looks_like(did) for run, did in doings(session).items()}
    return {run: found.word for run, found in judged.items() if found is not None}


def _truths(seed: int) -> dict[str, str]:
    site = alpha_site(seed, 60, 10)
    truths = {}
    for plan, archetype in plans(site):
        module = archetype.__module__.rsplit(".", 1)[-1]
        named = getattr(archetype, "__name__", "")
        truths[run_id(site, plan)] = TRUE_STAGES.get(named, TRUE_STAGES.get(module, "training"))
    return truths


def _show(confusion: Counter[tuple[str, str]]) -> None:
    for truth in sorted({truth for truth, _ in confusion}):
        found = {seen: runs for (true, seen), runs in sorted(confusion.items()) if true == truth}
        print(f"{truth:<18}{', '.join(f'{seen} {runs}' for seen, runs in found.items())}")
    said = sum(runs for (_, seen), runs in confusion.items() if seen != ABSTAINS)
    right = sum(runs for (truth, seen), runs in confusion.items() if seen == truth)
    print(f"of {confusion.total()} runs it names {said}, {right} of them rightly")


if __name__ == "__main__":
    main()
