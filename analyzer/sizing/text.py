"""A sized model as text of 80 columns, and as JSON: schema gpuledger/size, version 1 (docs/json.md)."""

from collections.abc import Callable
from math import inf
from typing import Any

from agent.wire.units import GIB
from analyzer.prices.rows import ANY
from analyzer.sizing.fitting import Fit, HourlyRate
from analyzer.sizing.memory import Memory, MemoryPart
from analyzer.sizing.sized import LOOK_BACK_DAYS, Check, OfKind, Similar, Sized, Spread
from analyzer.sizing.throughput import Paced, Speed, Traffic, TrainingRun, TrainingTime, Unknown, context_tokens
from analyzer.text.as_json import as_json, plain_data
from analyzer.text.layout import TextLayout
from analyzer.text.table import CellUnit, TableColumn, paper_lines
from analyzer.text.words import NO_BREAK, UNKNOWN, amount, counted, decimal, duration, money, nearest, plain, some


def sized_json(one: Sized) -> str:
    """Return the whole answer; None stays null: not known."""
    shape = one.model.shape
    return as_json(
        "size",
        {
            "model": {
                "name": one.model.name,
                "parameters": one.model.parameters,
                "active_parameters": shape.active_parameters if shape else None,
                "shape": plain_data(shape),
                "source": one.model.source,
                "assumed": list(one.model.assumed),
                "draft": one.model.draft.name if one.model.draft else None,
            },
            "for": one.work.purpose,
            "precision": one.work.precision.name,
            "kv_precision": one.work.cache.name if one.work.cache else None,
            "optimizer": one.work.optimizer if one.work.is_training else None,
            "states": sorted(one.work.states) if one.work.is_training else None,
            "rank": one.work.rank if one.work.purpose in ("lora", "qlora") else None,
            "recompute": one.work.recompute if one.work.is_training else None,
            "batch": one.work.batch,
            "context": one.work.context,
            "sequences": one.work.sequences if not one.work.is_training else None,
            "memory": _memory_data(one.memory),
            "currency": one.currency,
            "fits": [_fit_data(fit) | {"context_tokens": _context(one, fit)} for fit in one.fits],
            "does_not_fit": [
                {"sku": misfit.kind.sku, "memory_bytes": misfit.kind.memory_bytes, "why": misfit.why}
                for misfit in one.misfits
            ],
            "similar": plain_data(one.similar),
            "asked": _asked_data(one.asked),
            "paces": [_pace_data(pace) for pace in one.paces],
        },
    )


def _memory_data(needed: Memory) -> dict[str, Any]:
    return {
        "sharding": plain_data(needed.sharding),
        "parts": [{"name": part.name, "bytes": part.bytes, "told": part.told} for part in needed.parts],
        "total_bytes": needed.total_bytes,
        "is_whole": needed.is_whole,
    }


def _fit_data(fit: Fit) -> dict[str, Any]:
    return {
        "sku": fit.kind.sku,
        "gpus": fit.gpus,
        "nodes": fit.nodes,
        "gpus_a_node": fit.gpus_a_node,
        "owned_gpus": fit.kind.owned_gpus,
        "memory_bytes": fit.kind.memory_bytes,
        "holds": _memory_data(fit.memory),
        "room_permille": fit.room_permille,
        "is_tight": fit.is_tight,
        "note": fit.note,
        "price": plain_data(fit.rate),
        "offer": plain_data(fit.offer),
        "micros_per_hour": fit.micros_per_hour,
        "node_micros_per_hour": fit.node_micros_per_hour,
    }


def _asked_data(asked: Traffic | TrainingRun | None) -> Any:  # noqa: ANN401 - plain data
    """Return what was asked for; a latency without a limit is null."""
    if not isinstance(asked, Traffic):
        return plain_data(asked)
    return {key: None if value == inf else value for key, value in plain_data(asked).items()}


def _pace_data(one: Paced) -> dict[str, Any]:
    return {
        "sku": one.fit.kind.sku,
        "gpus": one.fit.gpus,
        "sharding": one.fit.memory.sharding.told,
        "micros": one.micros,
        **plain_data(one.pace),
    }


def _context(one: Sized, fit: Fit) -> int | None:
    """Return the tokens that one sequence may have there, None of a training or where the cache is not known."""
    return None if one.work.is_training else context_tokens(fit, one.model, one.work)


_GIGA = 10**9
_KINDS_SHOWN = 4
_WIDEST_HOST_BYTES = 400 * _GIGA  # a second: eight NDR links of 400 Gbit/s, the widest that hosts of eight GPUs have
_PURPOSE = {
    "inference": "to serve it",
    "lora": "to tune adapters (LoRA)",
    "qlora": "to tune adapters on quantized weights (QLoRA)",
    "full": "to train all of it",
}
_PARTS = (
    TableColumn[MemoryPart]("", lambda part: part.name, width=20, align="<"),
    TableColumn[MemoryPart]("", lambda part: "not known" if part.bytes is None else _gib(part.bytes), width=12),
    TableColumn[MemoryPart]("", lambda part: part.told, gap=2),
)


def sized_text(one: Sized, layout: TextLayout) -> str:
    """Return the whole answer."""
    return layout.page(
        [
            *_heading(one, layout),
            "",
            *_memory(one, layout),
            "",
            *_fits(one, layout),
            *_misfits(one, layout),
            *_paces(one, layout),
            *_past(one, layout),
        ]
    )


def _gib(amount_bytes: int) -> str:
    """Return memory in GiB with one decimal: "12.0 GiB"."""
    return f"{decimal(nearest(amount_bytes * 10, GIB), 1)}{NO_BREAK}GiB"


def _heading(one: Sized, layout: TextLayout) -> list[str]:
    shape = one.model.shape
    of = f"{_billions(one.model.parameters)} parameters"
    if shape is not None and shape.experts > 1:
        of += f", {_billions(shape.active_parameters)} of them active"
    lines = [f"{plain(one.model.name)}: {of}; {_PURPOSE[one.work.purpose]}"]
    if shape is None:
        why = "Its shape is not known: set --layers and --hidden, and what depends on batch and context is counted too."
        lines += layout.wrap(why)
    for told in one.model.assumed:
        lines += layout.wrap(plain(told), "  ", "    ")
    return lines


def _billions(count: int) -> str:
    return f"{decimal(nearest(count, 10**7), 2)} bn"


def _memory(one: Sized, layout: TextLayout) -> list[str]:
    sharding = one.memory.sharding
    on = "on one GPU" if sharding.gpus == 1 else f"on each of {sharding.gpus} GPUs, {sharding.told}"
    bytes_ = one.memory.total_bytes
    also = f"{decimal(nearest(bytes_ * 10, _GIGA), 1)} GB; each part is rounded separately"
    total = MemoryPart("total" if one.memory.is_whole else "total, at least", bytes_, also)
    return [f"MEMORY ({on})", *paper_lines(_PARTS, [*one.memory.parts, total], wrap=layout)]


def _fits(one: Sized, layout: TextLayout) -> list[str]:
    if not one.fits:
        return ["WHERE IT FITS", "  on none of the known kinds of GPU"]
    what = "WHERE IT FITS" if one.memory.is_whole else "WHERE WHAT IS KNOWN FITS"
    columns = (
        TableColumn[Fit]("  GPU", lambda fit: fit.kind.sku, width=20, align="<", is_cut=True),
        TableColumn[Fit]("GPUs", lambda fit: fit.gpus, width=4),
        TableColumn[Fit]("nodes", _nodes, width=7, align="<", gap=2),
        TableColumn[Fit]("per GPU", lambda fit: fit.memory.total_bytes, CellUnit(_gib), 10),
        TableColumn[Fit]("room", lambda fit: f"{fit.room_permille // 10}%{'!' if fit.is_tight else ' '}", width=7),
        TableColumn[Fit]("sharding", lambda fit: fit.memory.sharding.told, width=19, align="<", gap=1, is_cut=True),
        TableColumn[Fit](f"{one.currency}/h ", _price, width=10),
    )
    lines = [f"{what} (the cheapest first; room under 20% is tight)", *paper_lines(columns, one.fits)]
    told = []
    paid = [f"{fit.kind.sku} {rate.option or ANY}" for fit in one.fits if (rate := _site_rate(fit)) is not None]
    if paid:
        told.append(f"the site's prices: {', '.join(paid)}")
    if any(_is_listed(fit) for fit in one.fits):
        told.append(
            "* public list prices on demand, each of one provider, for comparison only (gpuledger bill prices --all): "
            + ", ".join(f"{fit.kind.sku} {fit.offer.provider}" for fit in one.fits if fit.offer is not None)
        )
    held = ((fit.kind.sku, _context(one, fit)) for fit in one.fits)
    if contexts := [f"{sku} {tokens:,}" for sku, tokens in held if tokens is not None]:
        told.append(f"tokens that one sequence may have there, a tenth left free: {some(contexts)}")
    notes = dict.fromkeys(fit.note for fit in one.fits if fit.note is not None)
    told += [f"{note}: {', '.join(fit.kind.sku for fit in one.fits if fit.note == note)}" for note in notes]
    if any(fit.gpus % fit.gpus_a_node for fit in one.fits):
        told.append('"1 of 8": where only whole nodes can be had, the whole node is paid for')
    if one.has_ledger:
        owned = ", ".join(f"{fit.kind.owned_gpus} {fit.kind.sku}" for fit in one.fits if fit.kind.owned_gpus)
        told.append(f"the fleet has {owned or 'none of these'}")
    for sentence in told:
        lines += layout.wrap(sentence, "  ", "    ")
    return lines


def _is_listed(fit: Fit) -> bool:
    return fit.rate is not None and fit.rate.source == "list"


def _site_rate(fit: Fit) -> HourlyRate | None:
    return fit.rate if fit.rate is not None and fit.rate.source == "site" else None


def _nodes(fit: Fit) -> str:
    return str(fit.nodes) if fit.gpus % fit.gpus_a_node == 0 else f"{fit.gpus} of {fit.nodes * fit.gpus_a_node}"


def _price(fit: Fit) -> str:
    price = UNKNOWN if fit.micros_per_hour is None else amount(fit.micros_per_hour)
    return f"{price}{'*' if _is_listed(fit) else ' '}"


def _misfits(one: Sized, layout: TextLayout) -> list[str]:
    if not one.misfits:
        return []
    by_reason: dict[str, list[str]] = {}
    for misfit in one.misfits:
        by_reason.setdefault(misfit.why, []).append(plain(misfit.kind.sku))
    is_known = not any(why.startswith("not known") for why in by_reason)
    lines = ["", "WHERE IT DOES NOT" if is_known else "WHERE IT DOES NOT, OR NOBODY KNOWS"]
    for why, skus in by_reason.items():
        lines += layout.wrap(f"{', '.join(skus)}: {why}", "  ", "    ")
    return lines


def _gpus(one: Paced) -> str:
    replicas = one.pace.replicas if isinstance(one.pace, Speed) else None
    return f"{one.fit.gpus}" if replicas is None else f"{replicas}x{one.fit.gpus}"


_SERVED = (
    TableColumn[Paced]("  GPU", lambda one: one.fit.kind.sku, width=15, align="<", is_cut=True),
    TableColumn[Paced]("GPUs", _gpus, width=6),
    TableColumn[Paced]("batch", lambda one: _of(one, lambda pace: f"{pace.batch:,}"), width=6),
    TableColumn[Paced]("tokens/s", lambda one: _of(one, _tokens), width=24),
    TableColumn[Paced]("first", lambda one: _of(one, lambda pace: _seconds(pace.first_token_seconds)), width=7),
    TableColumn[Paced]("next", lambda one: _of(one, lambda pace: _seconds(pace.next_token_seconds)), width=7),
    TableColumn[Paced]("in", lambda one: _of(one, lambda pace: _dear(pace.input_micros)), width=7),
    TableColumn[Paced]("out", lambda one: _of(one, lambda pace: _dear(pace.output_micros)), width=7),
)
_TRAINED = (
    TableColumn[Paced]("  GPU", lambda one: one.fit.kind.sku, width=20, align="<", is_cut=True),
    TableColumn[Paced]("GPUs", lambda one: one.fit.gpus, width=5),
    TableColumn[Paced]("days", lambda one: _days(one.pace), width=26),
    TableColumn[Paced]("cost", lambda one: UNKNOWN if one.micros is None else amount(one.micros, 0), width=16),
    TableColumn[Paced]("a host moves", lambda one: _moved(one.pace), width=13),
)


def _paces(one: Sized, layout: TextLayout) -> list[str]:
    """Return how fast the GPUs do what is asked, and at what price."""
    if one.asked is None:
        return []
    known = [pace for pace in one.paces if not isinstance(pace.pace, Unknown)]
    unknown = dict.fromkeys(pace.pace.why for pace in one.paces if isinstance(pace.pace, Unknown))
    lines = ["", *_asked_lines(one, layout)]
    lines += paper_lines(_TRAINED if isinstance(one.asked, TrainingRun) else _SERVED, known) if known else []
    for why in unknown:
        skus = [pace.fit.kind.sku for pace in one.paces if isinstance(pace.pace, Unknown) and pace.pace.why == why]
        lines += layout.wrap(f"not said of {', '.join(skus)}: {why}", "  ", "    ")
    return [*lines, *_bought(one, layout)]


def _asked_lines(one: Sized, layout: TextLayout) -> list[str]:
    if isinstance(one.asked, TrainingRun):
        how = "said" if one.asked.mfu is not None else "from 50% to 25%, middle 40%: published of long pretraining"
        return layout.wrap(f"HOW LONG ({one.asked.tokens:,} tokens; MFU {how})", "", "  ")
    asked = one.asked
    if asked is None:
        return []
    rate = f", {asked.requests_per_second:g} requests/s" if asked.requests_per_second else ""
    told = (
        f"HOW FAST ({asked.input_tokens:,} tokens in, {asked.output_tokens:,} out{rate}; estimates, in brackets P10 to "
        f"P90 of measured ones; {one.currency} for a million tokens)"
    )
    return layout.wrap(told, "", "  ")


def _bought(one: Sized, layout: TextLayout) -> list[str]:
    """Return what all replicas cost, and from which rate on they cost less than an API."""
    asked = one.asked
    widest = max((_exchange(pace.pace) for pace in one.paces), default=0)
    if widest > _WIDEST_HOST_BYTES:
        told = (
            "where a host moves more than 400 GB/s (8 links of 400 Gbit/s), no usual fabric carries it: batches must be"
        )
        return layout.wrap(f"{told} larger, or accumulated", "  ", "    ")
    best = next((pace for pace in one.paces if isinstance(pace.pace, Speed) and pace.micros is not None), None)
    if not isinstance(asked, Traffic) or best is None or not isinstance(best.pace, Speed):
        return []
    lines: list[str] = []
    if best.pace.replicas is not None and best.micros is not None:
        many = counted(best.pace.replicas, "replica")
        told = f"least: {many} of {best.fit.gpus} {best.fit.kind.sku}, {amount(best.micros)} {one.currency}/h"
        lines += layout.wrap(f"{told}, at the lower end of what was measured", "  ", "    ")
    if best.pace.api_break_even_per_second is not None:
        even = best.pace.api_break_even_per_second
        holds = best.pace.low / asked.output_tokens
        side = "less" if even < holds else "more, however busy it is"
        told = f"one replica on {best.fit.gpus} {best.fit.kind.sku} costs what the API asks for {even:,.2f} requests/s"
        lines += layout.wrap(f"{told}, and serves {holds:,.2f}: full, it costs {side}", "  ", "    ")
    return lines


def _of(one: Paced, words: Callable[[Speed], str]) -> str:
    return words(one.pace) if isinstance(one.pace, Speed) else UNKNOWN


def _tokens(pace: Speed) -> str:
    return f"{pace.output_tokens_per_second:,.0f} ({pace.low:.0f}-{pace.high:.0f})"


def _seconds(value: float) -> str:
    return f"{value * 1000:,.0f}{NO_BREAK}ms" if value < 10 else f"{value:,.0f}{NO_BREAK}s"


def _dear(micros: int | None) -> str:
    return UNKNOWN if micros is None else amount(micros)


def _days(pace: Speed | TrainingTime | Unknown) -> str:
    if not isinstance(pace, TrainingTime):
        return UNKNOWN
    told = [f"{seconds / 86_400:,.1f}" for seconds in (pace.seconds, pace.low, pace.high)]
    return told[0] if pace.low == pace.high else f"{told[0]} ({told[1]}-{told[2]})"


def _exchange(pace: Speed | TrainingTime | Unknown) -> int:
    return (pace.host_bytes_per_second or 0) if isinstance(pace, TrainingTime) else 0


def _moved(pace: Speed | TrainingTime | Unknown) -> str:
    if not isinstance(pace, TrainingTime) or pace.host_bytes_per_second is None:
        return UNKNOWN
    return f"{nearest(pace.host_bytes_per_second, _GIGA)}{NO_BREAK}GB/s"


def _past(one: Sized, layout: TextLayout) -> list[str]:
    if not one.has_ledger:
        return []
    found = one.similar
    if found is None:
        return ["", "SIMILAR RUNS", *layout.wrap("the ledger has none: of this model, or near in memory and GPUs")]
    lines = [
        "",
        "SIMILAR RUNS",
        *layout.labelled("found", f"{counted(len(found.runs), 'run')} {found.by}, in {LOOK_BACK_DAYS} days"),
    ]
    lines += layout.labelled("which", _which(found))
    several = len(found.of_kinds) > 1
    for of in found.of_kinds[:_KINDS_SHOWN]:
        if several:
            lines += ["", *layout.wrap(f"on {of.gpus} {plain(of.sku)}, {counted(of.runs, 'run')}", "  ")]
        lines += _of_kind(of, one.currency, layout)
    if len(found.of_kinds) > _KINDS_SHOWN:
        lines += ["", f"  and {len(found.of_kinds) - _KINDS_SHOWN} more kinds or numbers of GPUs (--json)"]
    if found.check is not None:
        lines += layout.labelled("formula", _checked(found.check))
    return lines


def _of_kind(of: OfKind, currency: str, layout: TextLayout) -> list[str]:
    unpriced, running = "not known: none with a price for all of its time", "not known: none has ended"
    why = running if of.seconds is None else unpriced
    return [
        *layout.labelled("per hour", _spread(of.micros_per_hour, lambda m: money(m, currency), unpriced)),
        *layout.labelled("per run", _spread(of.micros, lambda m: money(m, currency), why)),
        *layout.labelled("its time", _spread(of.seconds, duration, running)),
    ]


def _which(found: Similar) -> str:
    names = list(dict.fromkeys(f"{plain(run.name or run.run_id)} ({run.gpus} {run.sku})" for run in found.runs))
    return some(names)


def _spread(told: Spread | None, words: Callable[[int], str], unknown: str) -> str:
    if told is None:
        return unknown
    if told.count == 1:
        return f"{words(told.p50)} (one run)"
    low, high = ("least", "most") if told.is_range else ("P10", "P90")
    return f"{words(told.p10)} ({low}), {words(told.p50)} (P50), {words(told.p90)} ({high}) of {told.count}"


def _checked(check: Check) -> str:
    apart = nearest((check.estimate_bytes - check.seen_bytes) * 100, max(1, check.seen_bytes))
    side = "as seen" if apart == 0 else f"{abs(apart)}% {'above' if apart > 0 else 'below'} what was seen"
    need = "" if check.says_need else "; a server reserves what it is configured to, so that this is not what it needs"
    return (
        f"{_gib(check.seen_bytes)} seen on one of {check.gpus} {check.sku}, {_gib(check.estimate_bytes)} "
        f"by the formula for this batch and context ({check.sharding}): {side}{need}"
    )
