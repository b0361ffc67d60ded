"""The command that makes the ledger; those that read it, judge it and act on it live in rooms of their own."""

import argparse
import time
from pathlib import Path

from analyzer.analysis import analyze as bring_up_to_date
from analyzer.interfaces.cli.decisions import where
from analyzer.ledger.booking import Analysis
from analyzer.reports.prediction_book import keep_recommendations
from collector.config import check_there
from collector.store.database import open_for_command

_OK = 0
_BOOKED_BY = "gpuledger serve --only analyzer books it, in turn with the others"


def analyze(argv: list[str]) -> int:
    """Bring the ledger up to date, once: the hours that anything new touches are booked anew, closed ones adjusted."""
    parser = argparse.ArgumentParser(prog="gpuledger admin analyze", description=analyze.__doc__)
    _add_store(parser)
    options = parser.parse_args(argv)
    config, settings = where(options, _BOOKED_BY)
    check_there(config)
    began = time.monotonic()
    now_us = time.time_ns() // 1000
    with open_for_command(config, memory_limit=settings.memory_limit, threads=settings.threads) as store:
        done = bring_up_to_date(store, settings, now_us=now_us)
        keep_recommendations(store, settings, now_us)
    print(_done(done, time.monotonic() - began))
    return _OK


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")


def _done(done: Analysis, seconds: float) -> str:
    if not done.hours:
        return "nothing new: the ledger is up to date"
    corrected = f", {done.adjustments} adjustments of closed hours" if done.adjustments else ""
    return f"{done.hours} hours, {done.rows} rows{corrected}, in {seconds:.1f} s"
