"""gpuledger alarms: what was told, what waits, what takes nothing; and a test of who is told."""

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from analyzer.errors import ConfigError
from analyzer.interfaces.alarms.alarm import Alarm, alertmanager_body, webhook_body
from analyzer.interfaces.alarms.hook import AlarmError, post, post_signed, read_back
from analyzer.interfaces.alarms.settings import TABLE, AlarmSettings
from analyzer.settings.settings import TABLES, Settings
from analyzer.text.layout import at_column
from analyzer.text.words import counted, moment_words
from collector.access.open_access import registry_of
from collector.config import CollectorConfig, check_there, settings_of_store
from collector.registry import AlarmPost, Alarms, KeptAlarm

_OK, _FAILING = 0, 1
_SHOWN = 20
_TEST_LASTS_US = 300_000_000


@dataclass(frozen=True, slots=True)
class _Site:
    config: CollectorConfig
    settings: Settings
    alarms: AlarmSettings


def alarms(argv: list[str]) -> int:
    """Show active alarms, those held back or waiting, and receivers that do not accept them."""
    parser = _parser("admin alarms", alarms.__doc__)
    site = _site(parser.parse_args(argv))
    with registry_of(site.config, site.config.store) as registry:
        lines, is_well = _lines(registry.alarms, site)
    print("\n".join(lines))
    return _OK if is_well else _FAILING


def alarms_test(argv: list[str]) -> int:
    """Send a test alarm to every receiver and print the response. It expires after five minutes."""
    parser = _parser("admin alarms test", alarms_test.__doc__)
    site = _site(parser.parse_args(argv))
    told = site.alarms
    if not told.told:
        raise ConfigError(f"no receivers: [{TABLE}] of the settings names neither alertmanager nor webhook")
    now = time.time_ns() // 1000
    alarm = Alarm(
        "test", "test", False, None, "gpuledger admin alarms test", "This is a test; no action is needed.", None,
        site.settings.site_url or None, now, None,
    )  # fmt: skip
    cluster, currency = site.settings.cluster, site.settings.currency
    answers = []
    if told.alertmanager:
        body = alertmanager_body([alarm], [], now + _TEST_LASTS_US, cluster, currency)
        answers.append(_tried("Alertmanager", lambda: post(f"{told.alertmanager}/api/v2/alerts", body, {}, told.ca)))
    if told.webhook:
        hook = webhook_body("test", f"test.{now}.test", alarm, now, cluster, currency).encode()
        key = told.key()
        answers.append(_tried("the webhook", lambda: post_signed(told, key, hook, now)))
    return _OK if all(answers) else _FAILING


def _parser(name: str, about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"gpuledger {name}", description=about)
    parser.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")
    return parser


def _site(options: argparse.Namespace) -> _Site:
    config, file = settings_of_store(options.store, options.config, os.environ)
    check_there(config)
    return _Site(config, Settings.read(file), AlarmSettings.read(file, TABLES))


def _tried(who: str, hand_over: Callable[[], None]) -> bool:
    try:
        hand_over()
    except AlarmError as error:
        print(f"{who}: {error}")
        return False
    print(f"{who}: accepted")
    return True


def _lines(kept: Alarms, site: _Site) -> tuple[list[str], bool]:
    zone, lasting = site.settings.timezone, kept.lasting()
    said = [one for one in lasting if one.said_at is not None]
    held = [one for one in lasting if one.said_at is None]
    failed, waits = kept.posts(("failed",), _SHOWN), kept.posts(("queued",), _SHOWN)
    who = [name for name in ("alertmanager", "webhook") if getattr(site.alarms, name)]
    lines = [f"receivers: {' and '.join(who) if who else f'none; name one in [{TABLE}] of the settings'}"]
    lines += _section("active", said, zone) + _section("held back: a team's daily limit is reached", held, zone)
    lines += _posts("waiting for the webhook", waits, zone) + _posts("rejected by the webhook", failed, zone)
    return lines, not failed and not any(one.attempts for one in waits)


def _section(title: str, of: list[KeptAlarm], zone: str) -> list[str]:
    lines = ["", f"{title}: {counted(len(of), 'alarm')}"] if of else []
    lines += [_line(one, zone) for one in of[:_SHOWN]]
    return lines + ([f"  and {len(of) - _SHOWN} more"] if len(of) > _SHOWN else [])


def _line(one: KeptAlarm, zone: str) -> str:
    id_ = at_column(f"  {one.id}", 11)
    return f"{id_}{moment_words(one.said_at or one.opened_at, zone)}  {read_back(one.body).sentence}"


def _posts(title: str, of: list[AlarmPost], zone: str) -> list[str]:
    lines = ["", title] if of else []
    return lines + [f"  {moment_words(one.made_at, zone)}  {one.id}: {one.told or 'not attempted yet'}" for one in of]
