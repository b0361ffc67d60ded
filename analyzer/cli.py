"""The analyzer's commands: those that make and check the ledger here; those that read it live beside the reports."""

import argparse
import json
import os
import time
from pathlib import Path

from analyzer.analysis import Analysis
from analyzer.analysis import analyze as bring_up_to_date
from analyzer.config import Settings
from analyzer.doctor import Check, as_json, examine
from analyzer.report.cli import explain, findings, recommend, report, show
from collector.config import load
from collector.store.database import Store

__all__ = ["analyze", "doctor", "explain", "findings", "recommend", "report", "show"]

OK, CHECK_FAILED = 0, 1


def analyze(argv: list[str]) -> int:
    """Bring the ledger up to date, once: the hours that anything new touches are booked anew, closed ones adjusted."""
    parser = argparse.ArgumentParser(prog="gpuledger analyze", description=analyze.__doc__)
    _add_store(parser)
    path, settings = _where(parser.parse_args(argv))
    began = time.monotonic()
    with Store.open(path, memory_limit=settings.memory_limit, threads=settings.threads) as store:
        done = bring_up_to_date(store, settings, now_us=time.time_ns() // 1000)
    print(_done(done, time.monotonic() - began))
    return OK


def doctor(argv: list[str]) -> int:
    """Hold the ledger to its invariants: nothing created, nothing lost, to the millisecond and the millionth."""
    parser = argparse.ArgumentParser(prog="gpuledger doctor", description=doctor.__doc__)
    parser.add_argument("--json", action="store_true", help="the same as JSON (docs/json.md)")
    _add_store(parser)
    options = parser.parse_args(argv)
    path, settings = _where(options)
    with Store.open(path, read_only=True) as store, store.session() as session:
        checks = examine(session, settings)
    print(json.dumps(as_json(checks), indent=1) if options.json else _table(checks))
    return OK if all(check.is_right for check in checks) else CHECK_FAILED


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")


def _where(options: argparse.Namespace) -> tuple[Path, Settings]:
    path: Path = options.store or load(options.config, os.environ).store
    return path, Settings.read(options.config) if options.config else Settings.beside(path)


def _done(done: Analysis, seconds: float) -> str:
    if not done.days:
        return "nothing new: the ledger is up to date"
    corrected = f", {done.adjustments} adjustments of closed hours" if done.adjustments else ""
    return f"{done.hours} hours on {done.days} days, {done.rows} rows{corrected}, in {seconds:.1f} s"


def _table(checks: list[Check]) -> str:
    lines = [f"{'check':14}{'held to it':>12}{'off':>8}  what"]
    for check in checks:
        verdict = "" if check.is_right else f"   <- {check.unit} off"
        lines.append(f"{check.name:14}{check.checked:12,}{check.off:8,}  {check.about}{verdict}")
    right = all(check.is_right for check in checks)
    lines.append("all is as it must be" if right else "the ledger is not as it must be; keep the store and report this")
    return "\n".join(lines)
