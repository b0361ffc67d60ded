"""`gpuledger capacity size`: the memory of a model, the GPUs that hold it, their price, what runs like it took."""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from analyzer.errors import ConfigError
from analyzer.interfaces.cli.command import is_ascii, opened, width_of, write
from analyzer.interfaces.questions.sizing import ask_known, read_known
from analyzer.measures.efficiency.goodput import parameter_count
from analyzer.prices.price_book import PriceBook
from analyzer.sizing.config_reading import WIDEST
from analyzer.sizing.fitting import GpuRequest, kinds
from analyzer.sizing.model import Model, find_model, model_at, model_named
from analyzer.sizing.shape import Shape
from analyzer.sizing.sized import Past, Sized, sized
from analyzer.sizing.text import sized_json, sized_text
from analyzer.sizing.throughput import Traffic, TrainingRun, traffic_of
from analyzer.sizing.work import (
    DEFAULT_PRECISION,
    MOMENT_BYTES,
    MOST_GPUS,
    PRECISIONS,
    PURPOSES,
    RECOMPUTES,
    STATE_WAYS,
    Precision,
    Work,
    checked,
    precision_named,
)
from analyzer.text.layout import TextLayout

_SAID = "--parameters"
_APART_PERCENT = 25  # ours: widths that are left out (an MLP's, the vocabulary) may make so much of a difference
_WIDTHS = ("layers", "hidden", "heads", "kv_heads", "intermediate", "vocabulary")


def size(argv: list[str]) -> int:
    """Say what memory a model takes, which GPUs hold it with room to spare, what they cost an hour, and what runs like
    it cost.

    Without --store or --server it needs no ledger and no network: prices are then those of --prices, else public list
    prices.
    """
    options = _parser().parse_args(argv)
    model = _model(options)
    model, work = _work(options, model)
    asked = GpuRequest(options.gpus, options.sharding)
    if options.gpus is not None and not 1 <= options.gpus <= MOST_GPUS:
        raise ConfigError(f"--gpus {options.gpus} must be from 1 to {MOST_GPUS:,}")
    _check_where(options)
    answer = _sized(options, model, work, asked)
    if options.format == "json":
        write(sized_json(answer), options)
    else:
        write(sized_text(answer, TextLayout(width_of(options.width), is_ascii(options))), options)
    return 0


def _check_where(options: argparse.Namespace) -> None:
    if options.like and not (options.store or options.server or options.config):
        raise ConfigError("--like names a model of a ledger: say --store or --server too")
    if options.prices and options.server:
        raise ConfigError("--server has the prices of its own settings: leave --prices out, or read a --store")


def _sized(options: argparse.Namespace, model: Model, work: Work, asked: GpuRequest) -> Sized:
    pace = _pace(options)
    if not (options.store or options.server or options.config):
        book = PriceBook.read(options.prices) if options.prices else PriceBook()
        return sized(model, work, kinds(book, time.time_ns() // 1000), asked, book.currency, pace=pace)
    if options.server:
        known = ask_known(options.server)
    else:
        with opened(options) as reader:
            known = read_known(reader.session, reader.settings, options.prices)
    return sized(model, work, known.kinds, asked, known.currency, Past(known.runs, options.like), pace)


def _pace(options: argparse.Namespace) -> Traffic | TrainingRun | None:
    """Return what the GPUs are to do, None where nobody says so.

    Raises:
        ConfigError: it does not go with what the model is for, or is none that GPUs do.
    """
    limits = (options.requests_per_second, options.ttft, options.inter_token, options.api_price)
    flags = ("--requests-per-second", "--ttft", "--inter-token", "--api-price")
    given = [flag for flag, value in zip(flags, limits, strict=True) if value is not None]
    if options.purpose == "inference":
        if options.tokens or options.mfu is not None:
            raise ConfigError("--tokens and --mfu are of a training: say --traffic 1000,200, the tokens of a request")
        if options.traffic is None:
            if given:
                raise ConfigError(f"{' '.join(given)} need --traffic 1000,200: the tokens of a request, in and out")
            return None
        return traffic_of(options.traffic, *limits)
    if options.traffic or given:
        raise ConfigError(f"{' '.join(given) or '--traffic'} is of a service: a training is said by its --tokens, 15T")
    if options.tokens is None:
        if options.mfu is not None:
            raise ConfigError("--mfu needs --tokens: how many the model is trained on, such as 15T")
        return None
    tokens = parameter_count(options.tokens)
    if tokens is None:
        raise ConfigError(f"--tokens {options.tokens} is not a number of tokens such as 15T, 2e9")
    if options.mfu is not None and not 0 < options.mfu <= 1:
        raise ConfigError(f"--mfu {options.mfu} must be more than 0, and 1 at most")
    return TrainingRun(tokens, options.mfu)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuledger capacity size",
        description=size.__doc__,
        epilog="Formulas, their sources, limits: docs/model-sizes.md.",
    )
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="a name: qwen3-8b, llama-3.3-70b-fp8; or a config.json, or its folder"
    )
    parser.add_argument("--for", dest="purpose", choices=PURPOSES, required=True, help="what it is to be used for")
    other = parser.add_argument_group("a model that is not in the table")
    other.add_argument(_SAID, metavar="N", help="how many parameters it has: 13B, 1.3e9")
    other.add_argument("--layers", type=int, metavar="N", help="and its layers; with --hidden, batch and context count")
    other.add_argument("--hidden", type=int, metavar="N", help="width of the residual stream")
    other.add_argument("--heads", type=int, metavar="N", help="heads of attention (default: of 128 values each)")
    other.add_argument("--kv-heads", type=int, metavar="N", help="heads of keys and values (default: as many)")
    other.add_argument("--intermediate", type=int, metavar="N", help="width of the MLP (default: 4 x hidden, GELU)")
    other.add_argument("--vocabulary", type=int, metavar="N", help="tokens that it knows (default: 32000)")
    how = parser.add_argument_group("how it is used")
    how.add_argument(
        "--precision", metavar="P", help=f"of its weights: {', '.join(PRECISIONS)}, q4_k_m (default: its own)"
    )
    how.add_argument("--kv-precision", metavar="P", help="of keys and values: fp8, int8, bf16 (default: its own)")
    how.add_argument("--optimizer", choices=tuple(MOMENT_BYTES), default="adam", help="default: adam; sgd has momentum")
    how.add_argument("--states", metavar="WAYS", help=f"of the optimizer: {', '.join(STATE_WAYS)} (default: mixed)")
    how.add_argument("--recompute", choices=RECOMPUTES, default="selective", help="full: gradient checkpointing")
    how.add_argument("--rank", type=int, default=16, metavar="N", help="of adapters, on every linear (default: 16)")
    how.add_argument("--adapters", type=int, default=0, metavar="N", help="that a server keeps loaded (default: 0)")
    how.add_argument("--draft", metavar="MODEL", help="a smaller model that guesses its tokens ahead")
    how.add_argument("--batch", type=int, default=1, metavar="N", help="sequences of a copy at once (default: 1)")
    how.add_argument("--context", type=int, default=4096, metavar="N", help="tokens of a sequence (default: 4096)")
    how.add_argument("--sequences", type=int, default=1, metavar="N", help="that are served at a time (default: 1)")
    how.add_argument("--gpus", type=int, metavar="N", help="so many, and no other number")
    how.add_argument("--sharding", metavar="WAY", help="zero1-3, fsdp, tensor, pipeline; tensor=8,pipeline=2")
    _add_pace(parser)
    _add_where(parser)
    return parser


def _add_pace(parser: argparse.ArgumentParser) -> None:
    pace = parser.add_argument_group("how fast, at what price")
    pace.add_argument("--traffic", metavar="IN,OUT", help="tokens of a request to a service, such as 1000,200")
    pace.add_argument("--requests-per-second", type=float, metavar="N", help="that all replicas together serve")
    pace.add_argument("--ttft", type=float, metavar="SECONDS", help="time to first token at most")
    pace.add_argument("--inter-token", type=float, metavar="SECONDS", help="time between two tokens at most")
    pace.add_argument("--api-price", metavar="IN,OUT", help="dollars that an API asks for a million tokens")
    pace.add_argument("--tokens", metavar="N", help="that a model is trained on: 15T, 2e9")
    pace.add_argument("--mfu", type=float, metavar="RATIO", help="of the training (default: 0.4, from 0.25 to 0.5)")


def _add_where(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("prices, runs, and how it is written")
    where.add_argument("--prices", type=Path, metavar="FILE", help="the price file (default: the settings')")
    ledger = where.add_mutually_exclusive_group()
    ledger.add_argument(
        "--store", type=Path, metavar="FILE", help="a store: what its fleet has, what runs like it cost"
    )
    ledger.add_argument("--server", metavar="URL", help="ask a running server for that (its token: GPULEDGER_TOKEN)")
    where.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML (default: beside the store)")
    where.add_argument("--like", metavar="NAME", help="what the ledger calls this model, where it is another name")
    where.add_argument("--format", choices=("text", "json"), default="text", help="json is stable (docs/json.md)")
    where.add_argument("--json", action="store_const", const="json", dest="format", help="short for --format json")
    where.add_argument("--width", type=int, metavar="N", help="columns (default: the terminal's, at most 80)")
    where.add_argument("--plain", action="store_true", help="ASCII and no color, as in a pipe")
    where.add_argument("--out", type=Path, metavar="FILE", help="write to this file instead")


def _work(options: argparse.Namespace, model: Model) -> tuple[Model, Work]:
    """Return the work, in the model's own precision where none is said, and the model with what was told about it."""
    precision, told = _precision(options, model)
    said_cache = precision_named(options.kv_precision) if options.kv_precision else None
    work = Work(
        options.purpose,
        precision,
        cache=said_cache or (model.cache if options.purpose == "inference" else None),
        optimizer=options.optimizer,
        recompute=options.recompute,
        rank=options.rank,
        batch=options.batch,
        context=options.context,
        sequences=options.sequences,
        states=frozenset(options.states.replace(" ", "").split(",")) if options.states else frozenset(),
        adapters=options.adapters,
    )
    draft = _named(options.draft) if options.draft else None
    return replace(model, draft=draft, assumed=(*model.assumed, *told)), checked(work)


def _precision(options: argparse.Namespace, model: Model) -> tuple[Precision, tuple[str, ...]]:
    """Return what the weights are held in: as said, as name or file say, as is usual; and what to tell of it."""
    own, usual = model.precision, DEFAULT_PRECISION[options.purpose]
    if options.precision:
        said = model.held_in(options.precision)
        if model.is_named and own is not None and own.name != said.name:
            return said, (f"{said.name}, as --precision says; the name says {own.name}",)
        return said, ()
    binds = model.is_named or options.purpose == "inference"
    if own is None or not binds or (options.purpose == "qlora" and not own.quantises):
        return model.held_in(usual), ()
    where = "as the name or its file says" if model.is_named else "as it is published"
    return own, (f"{own.name}, {where} ({own.source})",) if own.quantises else ()


def _named(name: str) -> Model:
    """Return the model of a file or a folder that is there, else of the table; a folder of results is none."""
    path = Path(name)
    is_there = path.is_file() or (path.is_dir() and ((path / "config.json").is_file() or find_model(name) is None))
    return model_at(path) if path.suffix == ".json" or is_there else model_named(name)


def _model(options: argparse.Namespace) -> Model:
    """Return the model that the arguments name or describe.

    Raises:
        ConfigError: neither or both, or a figure is no number that a model has.
    """
    given = [f"--{name.replace('_', '-')}" for name in _WIDTHS if getattr(options, name) is not None]
    if options.model and (options.parameters or given):
        raise ConfigError(
            f"{options.model} is of the table, and {' '.join([*given] or [_SAID])} is for one that is not"
        )
    if options.model:
        return _named(options.model)
    if not options.parameters:
        raise ConfigError(f"name a model, such as llama-3-8b, or say {_SAID} 13B and what is known of its shape")
    count = parameter_count(options.parameters)
    if count is None:
        raise ConfigError(f"{_SAID} {options.parameters} is not a number of parameters such as 13B, 1.3e9")
    shape = _shape(options, given)
    if shape is not None and abs(shape.parameters - count) * 100 > _APART_PERCENT * count:
        raise ConfigError(
            f"{_SAID} {options.parameters} does not go with {' '.join(given)}, which make "
            f"{shape.parameters / 10**9:.1f} bn: correct one, or leave the widths out"
        )
    return Model(f"a model of {options.parameters}", count, shape, "as said on the command line")


def _shape(options: argparse.Namespace, given: list[str]) -> Shape | None:
    if not given:
        return None
    if options.layers is None or options.hidden is None:
        raise ConfigError(f"{' '.join(given)} alone make no shape: say --layers and --hidden")
    for name in _WIDTHS:
        value = getattr(options, name)
        if value is not None and not 1 <= value <= WIDEST:
            raise ConfigError(f"--{name.replace('_', '-')} {value} must be from 1 to {WIDEST:,}")
    heads = options.heads or max(1, options.hidden // 128)
    gated = options.intermediate is not None
    return Shape(
        layers=options.layers,
        hidden=options.hidden,
        heads=heads,
        key_value_heads=options.kv_heads or heads,
        head_width=max(1, options.hidden // heads),
        intermediate=options.intermediate or 4 * options.hidden,
        vocabulary=options.vocabulary or 32_000,
        is_gated=gated,
        has_dropout=not gated,
    )
