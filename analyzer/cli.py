"""The analyzer's commands: those that make and check the ledger here; those that read it live beside the reports."""

import argparse
import os
import time
from pathlib import Path

from analyzer.analysis import Analysis
from analyzer.analysis import analyze as bring_up_to_date
from analyzer.casebook.cli import judge, mute
from analyzer.config import Settings
from analyzer.doctor.cli import doctor
from analyzer.report.cli import explain, findings, findings_explain, recommend, report, show
from collector.config import load
from collector.store.database import Store

__all__ = [
    "analyze",
    "doctor",
    "explain",
    "findings",
    "findings_explain",
    "judge",
    "mute",
    "recommend",
    "report",
    "show",
]

OK = 0


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


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")


def _where(options: argparse.Namespace) -> tuple[Path, Settings]:
    path: Path = options.store or load(options.config, os.environ).store
    return path, Settings.read(options.config) if options.config else Settings.beside(path)


def _done(done: Analysis, seconds: float) -> str:
    if not done.hours:
        return "nothing new: the ledger is up to date"
    corrected = f", {done.adjustments} adjustments of closed hours" if done.adjustments else ""
    return f"{done.hours} hours, {done.rows} rows{corrected}, in {seconds:.1f} s"
