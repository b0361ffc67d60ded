"""The commands of the weekly e-mail: `report --mail` makes and sends it, `mail` says what became of it."""

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path

from analyzer.capacity.gate.decided import Decided
from analyzer.capacity.gate.request_store import requests_of
from analyzer.errors import ConfigError
from analyzer.interfaces.mail.editions import (
    check_mailable,
    contents,
    edition_message,
    editions,
    file_names,
    make_mails,
    subscription_id,
    tried,
)
from analyzer.interfaces.mail.sending import Post, Round, UnreachableError, send_due
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.ledger.believed import believing
from analyzer.period import Period
from analyzer.reports.reader import Reader
from analyzer.settings.settings import TABLES, Settings
from analyzer.text.layout import at_column
from analyzer.text.words import counted, moment_words, plain_sentence
from collector.access.open_access import registry_of
from collector.config import SHARED, CollectorConfig, check_there, settings_of_store
from collector.registry import Mails, Registry, Send, registry_file
from collector.store.database import open_for_command

_STOPPED_BY = "cli: an operator"
_SHOWN_US = 35 * 86_400_000_000  # five weeks
_LISTED = 40
_WORDS = {"queued": "waiting", "sending": "sending", "sent": "sent", "failed": "refused", "dropped": "skipped"}


def _standing_lines(mails: Mails, now_us: int, timezone: str) -> tuple[list[str], bool]:
    """Return the lines, and whether all is well: nothing refused of the newest period that was mailed to anybody."""
    sends = mails.sends(now_us - _SHOWN_US)
    stopped = [one for one in mails.subscriptions() if one.stopped_at is not None]
    counts = {state: sum(one.state == state for one in sends) for state in _WORDS}
    said = [f"{count} {_WORDS[state]}" for state, count in counts.items() if count]
    lines = [f"e-mails of five weeks: {', '.join(said) or 'none'}; {counted(len(stopped), 'recipient')} unsubscribed"]
    lines += [_line(one, timezone) for one in sends[:_LISTED]]
    lines += [f"  and {len(sends) - _LISTED} more"] if len(sends) > _LISTED else []
    for one in stopped:
        at = moment_words(one.stopped_at or 0, timezone)
        lines.append(f"  unsubscribed {one.address} ({one.list}), {at}, by {one.stopped_by}")
    newest = max((one.period for one in sends), default="")
    return lines, not any(one.state == "failed" and one.period == newest for one in sends)


def _line(one: Send, timezone: str) -> str:
    when = moment_words(one.done_at, timezone) if one.done_at else f"next attempt {moment_words(one.next_at, timezone)}"
    told = f": {plain_sentence(one.told)}" if one.told else ""
    return f"{at_column(f'  {_WORDS[one.state]}', 12)}{one.period} {one.address} ({one.list}), {when}{told}"


_OK, _REFUSED, _WAITING = 0, 1, 3


@dataclass(frozen=True, slots=True)
class Site:
    """What the settings of a site's server say."""

    config: CollectorConfig
    settings: Settings
    mail: MailSettings

    @classmethod
    def of(cls, store: Path | None, config: Path | None) -> "Site":
        """Return the site that --store and --config name.

        Raises:
            ConfigError: a setting is wrong.
        """
        collector, file = settings_of_store(store, config, os.environ)
        return cls(collector, Settings.read(file), MailSettings.read(file, TABLES))

    def asked(self, period: Period) -> tuple[Decided, ...]:
        """Return the capacity requests of a period; none where there is no registry, which a look must not make."""
        file = None if self.config.lake.startswith(SHARED) else registry_file(self.config.store)
        if file is not None and not file.exists():
            return ()
        with self.registry() as registry:
            return requests_of(registry, period.start, period.end)

    def registry(self) -> Registry:
        """Open its registry."""
        return registry_of(self.config, self.config.store)


def mail_week(options: argparse.Namespace) -> int:
    """Send the e-mail on a week, once to each address; or write it to files.

    Returns:
        0, or 1 where a server refused an address for good, or 3 where mails wait to be sent.
    """
    if options.server:
        raise ConfigError("--mail needs the store: use --store, on the host that runs gpuledger serve")
    if options.format != "text":
        raise ConfigError("--mail has its own format: omit --format")
    if options.until is not None:
        raise ConfigError("--mail covers one week: name it, as in gpuledger report --mail 2026-W46")
    site = Site.of(options.store, options.config)
    if options.dry_run:
        return _write_files(site, options.since, options.out)
    if options.out is not None:
        raise ConfigError("--out names the folder for --dry-run; without --dry-run, e-mails are sent")
    mail, now_us = site.mail.ready(site.settings.site_url), _now()
    with site.registry() as registry:
        with open_for_command(site.config, read_only=True) as store, believing(store) as session:
            reader = Reader(session, site.settings)
            period = reader.period(options.since)
            check_mailable(reader, period, now_us)
            asked = requests_of(registry, period.start, period.end)
            made = make_mails(reader, period, editions(mail), mail, registry.mails, _now, asked)
        for line in made.left_out:
            print(f"  not sent  {line}")
        with Post(mail) as post:
            done = send_due(registry.mails, post.deliver, _now)
        waiting = registry.mails.sends(states=("queued", "sending"))
    return _told(period, done, waiting, site.settings.timezone)


def mail(argv: list[str]) -> int:
    """Show the delivery status of the weekly e-mail: sent, waiting, refused, and who unsubscribed."""
    parser = argparse.ArgumentParser(prog="gpuledger admin mail", description=mail.__doc__)
    parser.add_argument(
        "--stop", metavar="ADDRESS", help="unsubscribe an address that asked by mail instead of using the link"
    )
    parser.add_argument("--resume", metavar="ADDRESS", help="resubscribe an address")
    parser.add_argument("--retry", action="store_true", help="retry waiting e-mails now")
    parser.add_argument("--store", type=Path, metavar="FILE", help="the store (default: from the settings)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")
    options = parser.parse_args(argv)
    site = Site.of(options.store, options.config)
    check_there(site.config)
    with site.registry() as registry:
        for address, stops in ((options.stop, True), (options.resume, False)):
            if address is not None:
                _turn(registry.mails, address, stops=stops)
        if options.retry:
            return _retry(registry.mails, site)
        lines, is_well = _standing_lines(registry.mails, _now(), site.settings.timezone)
    print("\n".join(lines))
    return _OK if is_well else _REFUSED


def _write_files(site: Site, since: str | None, folder: Path | None) -> int:
    if folder is None:
        raise ConfigError("--dry-run needs --out DIR, the folder that e-mails are written to")
    mail = tried(site.mail)
    every = editions(mail)
    with open_for_command(site.config, read_only=True) as store, believing(store) as session:
        reader = Reader(session, site.settings)
        period = reader.period(since)
        asked = site.asked(period)
        words = contents(reader, period, {one.team for one in every}, asked)
    names = file_names(every, period.label)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in every:
            path = folder / names[one.id]
            path.write_bytes(edition_message(one, words[one.team], mail, None, _now()))
            print(f"{path}  to {one.address}: {words[one.team].subject}")
    except OSError as error:
        raise ConfigError(f"cannot write to --out {folder}: {error.strerror}") from error
    return _OK


def _retry(mails: Mails, site: Site) -> int:
    mail = site.mail.ready(site.settings.site_url)
    mails.hurry(_now())
    with Post(mail) as post:
        done = send_due(mails, post.deliver, _now)
    return _told(None, done, mails.sends(states=("queued", "sending")), site.settings.timezone)


def _turn(mails: Mails, address: str, *, stops: bool) -> None:
    """Stop or resume every list of an address."""
    own = [one for one in mails.subscriptions() if one.id == subscription_id(one.list, address)]
    if not own:
        raise ConfigError(
            f"{address} has never been sent an e-mail; to exclude it, remove it from [mail] in the settings"
        )
    for one in own:
        if stops:
            mails.stop(one.id, _now(), _STOPPED_BY)
        else:
            mails.resume(one.id, _now(), _STOPPED_BY)
        print(f"{address} {'is unsubscribed from' if stops else 'is subscribed again to'} {one.list}")


def _told(period: Period | None, done: Round, waiting: list[Send], timezone: str) -> int:
    """Print what was done and return the exit code."""
    for word, lines in (("sent", done.sent), ("refused", done.failed), ("later", done.later)):
        for line in lines:
            print(f"{at_column(f'  {word}', 12)}{line}")
    what = f"week {period.label}: " if period is not None else ""
    next_try = f" (next attempt {moment_words(min(one.next_at for one in waiting), timezone)})" if waiting else ""
    waits = f", {len(waiting)} waiting{next_try}" if waiting else ""
    print(f"{what}{len(done.sent)} sent, {len(done.failed)} permanently refused{waits}")
    if done.unreachable is not None:
        raise UnreachableError(done.unreachable)
    return _REFUSED if done.failed else _WAITING if waiting else _OK


def _now() -> int:
    return time.time_ns() // 1000
