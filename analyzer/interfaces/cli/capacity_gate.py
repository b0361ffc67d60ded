"""gpuledger capacity request, and its list, show and override: alone, on a site's store, or to a running server."""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from analyzer.capacity.gate.decided import Decided, Rate, decided_of
from analyzer.capacity.gate.policy import Policy, read_policy
from analyzer.capacity.gate.policy_check import check_request
from analyzer.capacity.gate.request import Request, read_requests
from analyzer.capacity.gate.request_store import (
    Event,
    KeptRequest,
    Teller,
    decide,
    identity_of,
    kept_request,
    kept_requests,
)
from analyzer.capacity.gate.request_store import waive as waive_gate
from analyzer.capacity.gate.supply import History, Supply, work_of
from analyzer.capacity.gate.text import decided_text, history_text, list_text, shown_of
from analyzer.capacity.profile.signature import (
    EMBEDDED,
    EMBEDDED_END,
    ReadProfile,
    TrustedKey,
    read_envelope,
    read_profile,
)
from analyzer.errors import ConfigError, ProfileError
from analyzer.findings.judgement import reason_of
from analyzer.interfaces.cli.command import add_place, price_micros
from analyzer.interfaces.cli.decisions import where, who
from analyzer.ledger.believed import believing
from analyzer.server_client import ask_server_json, typed, zone_of
from analyzer.settings.settings import Settings, site_of
from analyzer.text.as_json import as_json
from analyzer.text.layout import TextLayout, has_colour, paint

if TYPE_CHECKING:
    from collector.registry import Registry

PATH = "/v1/capacity-requests"
_LOCAL = "local"  # the role of who works on the site's own machine: who can do so can also write its files
_FOR_EVER = 2**62
_OK, _STOPPED = 0, 1
_COLUMNS, _PAPER = 78, 80
_SERVER = "a running server (its token: GPULEDGER_TOKEN)"


def gate(argv: list[str]) -> int:
    """Check a capacity request against its profile and the site's policy; the exit code is 0 only where it passes.

    Alone it needs no store and no network, as in CI. With --store or --server the request is saved with its history,
    and prices and free GPUs that the profile does not have are looked up.
    """
    options = _gate_parser().parse_args(argv)
    requests = read_requests(options.request)
    if len(requests) > 1 and (options.json or options.out):
        raise ConfigError("--json and --out are of one kind of GPU; this request asks for several: a file for each")
    found = [_decided(options, request, said) for request, said in requests]
    for number, (decided, is_kept) in enumerate(found):
        if number:
            print()
        if options.out:
            _write_page(decided, options)
        _print(decided, options, is_kept=is_kept)
    return _OK if all(decided.verdict == "PASS" for decided, _ in found) else _STOPPED


def _decided(options: argparse.Namespace, request: Request, said: Mapping[str, object]) -> tuple[Decided, bool]:
    """Return the decision on one kind of GPU, and whether it is kept."""
    if options.server:
        return _posted(options, said), True
    settings = _settings(options)
    policy = read_policy(options.policy or (settings.gates if settings else None))
    read = _read(options.profile, policy.keys) if options.profile else None
    return _judged(options, request, read, policy, settings), bool(options.store) and not options.dry_run


def waive(argv: list[str]) -> int:
    """Override one policy check of a saved request, with a reason; who, when and why stay with it, and in the audit."""
    parser = _kept_parser("override", waive.__doc__)
    parser.add_argument("id", metavar="ID", help="the request's id, q-...")
    parser.add_argument("gate", metavar="CHECK", help="the policy check: useful, waiting, cheaper, ...")
    parser.add_argument("--reason", required=True, metavar="WHY", help="one sentence; kept with it")
    options = parser.parse_args(argv)
    reason_of(options.reason)  # what is refused is refused before anything is opened
    if options.server:
        body: dict[str, object] = {"gate": options.gate, "reason": options.reason}
        document = ask_server_json(options.server, f"{PATH}/{options.id}/waivers", body)
        decided = decided_of(document["request"]["decided"])
    else:
        with _registry_of_site(options) as registry:
            decided = waive_gate(registry, options.id, options.gate, options.reason, teller()).decided
    print(fill(f"{decided.request_id}: {options.gate} is overridden; the verdict is now {decided.verdict}.", _COLUMNS))
    return _OK


def list_(argv: list[str]) -> int:
    """List the capacity requests of a site, the newest first."""
    parser = _kept_parser("list", list_.__doc__)
    _add_paper(parser)
    options = parser.parse_args(argv)
    if options.server:
        pages = list(_pages(options.server))
        found, zone = [_kept_of(item) for page in pages for item in page["items"]], zone_of(pages[0])
    else:
        zone = where(options)[1].timezone
        with _registry_of_site(options) as registry:
            found = kept_requests(registry, 0, _FOR_EVER)
    if options.json:
        print(as_json("gate_list", {"requests": found}), end="")
        return _OK
    print(list_text(found, zone, _paper(options)), end="")
    return _OK


def show(argv: list[str]) -> int:
    """Show a saved request: its policy checks, the other offer, and who decided and overrode what, when."""
    parser = _kept_parser("show", show.__doc__)
    parser.add_argument("id", metavar="ID", help="the request's id, q-...")
    _add_paper(parser)
    options = parser.parse_args(argv)
    if options.server:
        document = ask_server_json(options.server, f"{PATH}/{options.id}")
        one, zone = _kept_of(document["request"]), zone_of(document)
    else:
        zone = where(options)[1].timezone
        with _registry_of_site(options) as registry:
            one = kept_request(registry, options.id)
    _print(one.decided, options, is_kept=True)
    if not options.json:
        print("\n" + history_text(one, zone, _paper(options)), end="")
    return _OK


def _gate_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpuledger capacity request", description=gate.__doc__)
    parser.add_argument("request", type=Path, metavar="REQUEST", help="the request: a TOML, JSON or YAML file")
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help="what gpuledger capacity profile wrote; a pilot has none"
    )
    parser.add_argument("--policy", type=Path, metavar="FILE", help="gates.toml (default: the settings', else ours)")
    parser.add_argument(
        "--price", metavar="P", help="per GPU-hour, instead of the price of site or profile; none is guessed"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the profile's page with this verdict; .txt: as text"
    )
    parser.add_argument("--dry-run", action="store_true", help="with --store: look everything up, and save nothing")
    _add_paper(parser)
    add_place(
        parser, "the site's store: what the profile does not have is looked up, and the request is saved", _SERVER
    )
    return parser


def _kept_parser(name: str, about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"gpuledger capacity request {name}", description=about)
    add_place(parser, "the site's store; a server may run on it (default: the settings')", _SERVER)
    return parser


def _add_paper(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="all of it, stable (docs/gate.md)")
    parser.add_argument("--plain", action="store_true", help="ASCII and no color, as in a pipe")


def _settings(options: argparse.Namespace) -> Settings | None:
    """Return the site's settings where a store or a file is named: alone, the gate depends on nothing around it."""
    return where(options)[1] if options.store or options.config else None


def _judged(
    options: argparse.Namespace,
    request: Request,
    read: ReadProfile | None,
    policy: Policy,
    settings: Settings | None,
) -> Decided:
    now = time.time_ns() // 1000
    price = price_micros(options.price)
    if not options.store or settings is None:
        currency = read.profile.currency if read else "USD"
        return check_request(request, read, policy, Supply(rate=_told(price, currency)), now)
    from analyzer.capacity.gate.supply import supply_of
    from collector.store.database import open_for_command

    with (
        _registry_of_site(options) as registry,
        open_for_command(where(options)[0], read_only=True) as store,
        believing(store) as session,
    ):
        identity = identity_of(registry, request, read.sha256 if read else "")

        def judged() -> tuple[Decided, History | None]:
            supply = supply_of(session, settings, registry, request, policy, identity, now)
            told = _told(price, settings.currency)
            supply = replace(supply, rate=told) if told else supply
            return check_request(request, read, policy, supply, now, identity), supply.history

        return judged()[0] if options.dry_run else decide(registry, judged, teller()).decided


def _told(price: int | None, currency: str) -> Rate | None:
    return None if price is None else Rate(price, "--price", currency)


def _posted(options: argparse.Namespace, said: Mapping[str, object]) -> Decided:
    for name in ("policy", "price", "dry_run"):
        if getattr(options, name):
            raise ConfigError(f"--{name.replace('_', '-')} is for this machine; a server has its own policy and prices")
    body: dict[str, object] = {"request": _plain(said)}
    if options.profile:
        body["profile"] = _document(options.profile)
    return decided_of(ask_server_json(options.server, PATH, body)["request"]["decided"])


def _plain(said: Any) -> Any:  # noqa: ANN401 - whatever TOML and YAML can say
    """Return a parsed request as JSON can say it: dates as texts, exact decimals as numbers."""
    return json.loads(
        json.dumps(said, default=lambda value: value.isoformat() if hasattr(value, "isoformat") else float(value))
    )


def _document(path: Path) -> object:
    """Return a profile's document as it is in the file; whether its signature holds is the server's to say."""
    _read(path)  # what is no profile is told here, before anything is sent
    text = path.read_text("utf-8")
    if text.lstrip()[:1] == "<":
        text = text.split(EMBEDDED, 1)[1].partition(EMBEDDED_END)[0]
    return json.loads(text)


def _read(path: Path, keys: Sequence[TrustedKey] = ()) -> ReadProfile:
    """Return the profile of a file; what is wrong with it is told with the file's name."""
    try:
        return read_profile(path, keys)
    except ProfileError as error:
        if str(path) in str(error):
            raise
        raise ProfileError(f"{path.name}: {error}") from error


def _write_page(decided: Decided, options: argparse.Namespace) -> None:
    """Write page one with the verdict. Its figures keep their signature; its words are this machine's, and unsigned."""
    from analyzer.capacity.profile.page import Form, form_of, in_form

    if options.profile is None:
        raise ConfigError("--out writes the profile's page, and a pilot has no profile")
    envelope = read_envelope(options.profile)
    shown = shown_of(decided, work_of(decided.request, envelope.profile))
    form: Form = "text" if form_of(options.out) == "text" else "html"
    try:
        options.out.write_text(in_form(form, envelope, shown), "utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write --out {options.out}: {error.strerror}") from error


def _print(decided: Decided, options: argparse.Namespace, *, is_kept: bool) -> None:
    if options.json:
        print(as_json("gate", {"decided": decided}), end="")
        return
    layout = _paper(options)
    text = decided_text(decided, layout, kept=is_kept)
    print(paint(text) if has_colour() and not layout.ascii else text, end="")


def _paper(options: argparse.Namespace) -> TextLayout:
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    is_ascii = options.plain or not sys.stdout.isatty() or encoding != "utf8"
    return TextLayout(min(_PAPER, shutil.get_terminal_size((_PAPER, 24)).columns), is_ascii)


def _pages(server: str) -> Iterator[dict[str, Any]]:
    cursor: str | None = ""
    while cursor is not None:
        page = ask_server_json(server, f"{PATH}?cursor={cursor}" if cursor else PATH)
        yield page
        cursor = page["next_cursor"]


def _registry_of_site(options: argparse.Namespace) -> "Registry":
    """Return the registry beside the store that the arguments or the settings name."""
    from collector.access.open_access import registry_of
    from collector.config import check_there

    config, _ = site_of(options.store, options.config)
    check_there(config)
    return registry_of(config, config.store)


def teller() -> Teller:
    """Return who says something on this machine, now."""
    return Teller(who(), _LOCAL, time.time_ns() // 1000)


def _kept_of(item: dict[str, Any]) -> KeptRequest:
    events = typed(tuple[Event, ...], item["history"])
    return KeptRequest(decided_of(item["decided"]), item["asked_at"], item["asked_by"], events)
