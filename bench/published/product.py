"""A seed's runs through the product: imported, analysed and read back as people would."""

import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.machine import ROOT
from bench.published.boards import BOARDS
from bench.published.registry import runs
from bench.published.score import Finding, Scored, settled
from bench.published.setting import Story
from bench.published.site import Site
from collector.store.database import Store

_LEDGER = """
    SELECT run_id, state || '/' || coalesce(cause, ''), suspicion, sum(milliseconds) FROM ledger
    WHERE run_id IS NOT NULL GROUP BY ALL
"""
_DAY = ("--since", "2026-11-17", "--until", "2026-11-17")


def run_seed(seed: int, names: Sequence[str], folder: Path) -> tuple[list[Scored], dict[str, float]]:
    """Return the scored runs of a seed, and the seconds that making, importing and analysing took."""
    took, began = {}, time.monotonic()
    site, told = Site(), []
    for run_id, setting, story in runs(seed, names):
        site.add(setting, story, run_id)
        told.append((run_id, setting, story))
    paths = site.write(folder)
    _write_settings(folder)
    took["make"] = time.monotonic() - began
    store = ("--store", str(folder / "s.duckdb"))
    for name, words in (
        ("import", ("import", *map(str, paths), *store)),
        ("analyze", ("admin", "analyze", *store, "--config", str(folder / "gpuledger.toml"))),
    ):
        began = time.monotonic()
        _command(*words)
        took[name] = time.monotonic() - began
    began = time.monotonic()
    config = (*_DAY, *store, "--config", str(folder / "gpuledger.toml"), "--json")
    found = json.loads(_command("findings", "--all", *config))
    unjudged = json.loads(_command("findings", "--unjudged", *config))["not_judged"]
    booked, suspected = _ledger(folder / "s.duckdb")
    lacking: dict[str, set[str]] = defaultdict(set)
    for one in unjudged:
        lacking[str(one["subject"])].add(str(one["rule"]))
    took["read"] = time.monotonic() - began
    scored = []
    for run_id, setting, story in told:
        truth = {label: 1000 * seconds for label, seconds in story.truth().items()}
        scored.append(
            Scored(
                setting.kind.name,
                setting.kind.fed,
                setting.board.sku,
                setting.interval,
                truth,
                settled(truth, booked[run_id], story.accepts),
                dict(suspected[run_id]),
                sorted(story.suspected),
                _findings(found["findings"], run_id, truth, story),
                sorted(lacking[run_id]),
                sum(setting.board_of(host).usd_per_hour for host in range(setting.hosts)) / setting.hosts / 3.6e6,
            )
        )
    return scored, took


def _command(*words: str) -> str:
    """Return what a command of the product prints; its failure is the bench's."""
    done = subprocess.run(
        [sys.executable, "-m", "gpuledger", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"gpuledger {' '.join(words[:2])}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _ledger(store: Path) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
    booked: dict[str, Counter[str]] = defaultdict(Counter)
    suspected: dict[str, Counter[str]] = defaultdict(Counter)
    with Store.open(store, read_only=True) as opened, opened.session() as session:
        for run_id, label, suspicion, milliseconds in session.rows(_LEDGER):
            booked[run_id][label] += int(milliseconds)
            if suspicion:
                suspected[run_id][str(suspicion)] += int(milliseconds)
    return booked, suspected


def _findings(told: Sequence[dict[str, Any]], run_id: str, truth: Mapping[str, float], story: Story) -> list[Finding]:
    found = []
    for one in told:
        if run_id in one["run_ids"]:
            label = f"{one['state']}/{one['cause'] or ''}"
            true = sum(ms for each, ms in truth.items() if label == each or label in story.accepts.get(each, ()))
            share = int(one["milliseconds"]) // len(one["run_ids"])
            found.append(Finding(run_id, label, str(one["confidence"]), share, true))
    return found


def _write_settings(folder: Path) -> None:
    prices = "".join(
        f'\n[[price]]\nsku = "{board.sku}"\npurchase_option = "any"\nusd_per_gpu_hour = {board.usd_per_hour}\n'
        'from = 2026-01-01\nas_of = 2026-11-01\nsource = "boards.py"\n'
        for board in BOARDS.values()
    )
    (folder / "prices.toml").write_text(f'currency = "USD"\n{prices}')
    (folder / "gpuledger.toml").write_text('[analyzer]\nprices = "prices.toml"\n')
