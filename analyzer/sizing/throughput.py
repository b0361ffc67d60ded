"""How fast a model is served and trained, and at what price: a roofline with efficiencies that were measured.

A step of decoding reads all weights and the cache of its batch, and multiplies each token with the parameters that it
meets; prefilling a prompt multiplies alone. Efficiencies were fitted to half of the published measurements of
tests/data/sizing/throughput.toml (NVIDIA's tables of TensorRT-LLM) and are held to the other half by
tests/analyzer/sizing/test_throughput.py. The interval is the P10 and P90 of the fitted half: other engines, and
settings that nobody tuned, lie at its lower end.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite

from agent.wire.units import HOUR_SECONDS
from analyzer.errors import ConfigError
from analyzer.sizing.fitting import LEAST_ROOM_PERMILLE, Fit, GpuRequest, fitting_offers
from analyzer.sizing.memory import cache_bytes
from analyzer.sizing.model import Model
from analyzer.sizing.shape import Shape
from analyzer.sizing.work import Board, Work, board_of

_MILLION = 1_000_000
_MOST_CONTEXT = 2**27
_GRADIENT_BYTES = 2


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Shares of a board's figures that are reached, and seconds that each step takes beside. `experts`: of a mixture.

    `blend` joins the time of memory and of arithmetic: 1 is their sum, infinity the larger of both.
    """

    memory: float = 0.95
    decode: float = 0.618
    prefill: float = 0.592
    expert_decode: float = 0.354
    expert_prefill: float = 0.424
    four_bits: float = 0.617
    attention: float = 0.539
    links: float = 0.95
    blend: float = 1.3
    step_seconds: float = 5.35e-3
    layer_seconds: float = 1.24e-5
    expert_layer_seconds: float = 1.13e-4
    exchange_seconds: float = 5.66e-5  # of a layer's, where matrices are split over GPUs; two a layer
    token_seconds: float = 9.7e-6  # of the host, for each sequence of a step
    most_batch: int = 2048  # sequences at once: the default of TensorRT-LLM; vLLM's is 1,024
    free: float = LEAST_ROOM_PERMILLE / 1000  # of a GPU's memory, which a server leaves alone
    low: float = 0.79  # of the estimate: P10 of the fitted half, each third of its models predicted by the others
    high: float = 1.25  # and P90


MEASURED = Efficiency()
# MFU of long pretraining runs. Source: Llama 3 (2024), table 4: 38 to 43% on 8,192 to 16,384 H100; PaLM (2022): 46%;
# GPT-3 on V100: 21%; what is not tuned reaches less.
_MFU = (0.25, 0.40, 0.50)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a service is asked: tokens in and out of a request, how many a second, and how long one waits for them."""

    input_tokens: int
    output_tokens: int
    requests_per_second: float | None = None
    first_token_seconds: float = inf
    next_token_seconds: float = inf
    api_micros: tuple[int, int] | None = None  # what an API asks for a million tokens in and out


@dataclass(frozen=True, slots=True)
class Speed:
    """What one copy of a model does on the GPUs of a fit, at the largest batch that its limits allow.

    Tokens a second are of all its GPUs; `low` and `high` of the output. Prices are for a million tokens, in millionths,
    None where the GPUs have none. `replicas` serve what is asked at the lower end of the interval.
    """

    batch: int
    context_tokens: int
    prefill_tokens_per_second: float
    output_tokens_per_second: float
    low: float
    high: float
    first_token_seconds: float
    next_token_seconds: float
    replicas: int | None
    input_micros: int | None
    output_micros: int | None
    api_break_even_per_second: float | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why nothing is said of a speed."""

    why: str


_NO_FIGURES = "the table has no FLOP/s and bandwidth of it"


def _measured_board(sku: str) -> Board | Unknown:
    """Return a board that the constants may be used for: what was measured was measured on NVIDIA's."""
    board = board_of(sku)
    if board is None:
        return Unknown(_NO_FIGURES)
    return board if board.source.startswith("NVIDIA") else Unknown("nothing was measured on boards of its maker")


def context_tokens(fit: Fit, model: Model, work: Work) -> int | None:
    """Return the tokens that one sequence may have on the GPUs of a fit, None where its cache is not known."""
    room = _room_bytes(fit, MEASURED)
    if model.shape is None or cache_bytes(model.shape, work, fit.memory.sharding) is None:
        return None
    shape = model.shape
    return _largest(_MOST_CONTEXT, lambda tokens: _cache_of(shape, work, fit, tokens) <= room)


def _room_bytes(fit: Fit, measured: Efficiency) -> int:
    """Return what is left on a GPU for keys and values."""
    usable = int((fit.kind.memory_bytes or 0) * (1 - measured.free))
    return usable - fit.memory.total_bytes + (fit.memory.of("KV cache") or 0)


def _cache_of(shape: Shape, work: Work, fit: Fit, tokens: int) -> int:
    """Return the bytes of keys and values of one sequence on a GPU."""
    one = Work(work.purpose, work.precision, context=tokens, cache=work.cache)
    return cache_bytes(shape, one, fit.memory.sharding) or 0


def speed(fit: Fit, model: Model, work: Work, traffic: Traffic, measured: Efficiency = MEASURED) -> Speed | Unknown:
    """Return how fast a model is served on the GPUs of a fit, or why that is not known."""
    board = _measured_board(fit.kind.sku)
    if isinstance(board, Unknown):
        return board
    room, shape = context_tokens(fit, model, work), model.shape
    if shape is None or room is None:
        return Unknown("its shape is not known")
    step = Roofline(fit, work, board, shape, measured)
    whole = traffic.input_tokens + traffic.output_tokens
    most = min(measured.most_batch, _room_bytes(fit, measured) // max(1, _cache_of(shape, work, fit, whole)))
    if room < whole or most < 1:
        return Unknown(f"a request of {whole:,} tokens does not fit beside the weights")
    batch = _largest(most, lambda many: step.keeps(traffic, many))
    if not batch:
        return Unknown("not even one request at a time is as fast as is asked")
    return _told(step, fit, traffic, batch, room)


def _largest(most: int, holds: Callable[[int], bool]) -> int:
    """Return the largest number up to `most` that holds, where each smaller one does too; 0 where none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _told(step: "Roofline", fit: Fit, traffic: Traffic, batch: int, room: int) -> Speed:
    prefill, decode = step.prefill_seconds(traffic.input_tokens), step.decode_seconds(batch, traffic)
    a_request = step.request_seconds(batch, traffic)
    output = traffic.output_tokens / a_request
    micros = fit.micros_per_hour
    a_second = None if micros is None else micros / HOUR_SECONDS
    wanted = traffic.requests_per_second
    api = traffic.api_micros
    even = None
    if api is not None and a_second is not None:
        each = (traffic.input_tokens * api[0] + traffic.output_tokens * api[1]) / _MILLION
        even = a_second / each if each else None
    return Speed(
        batch=batch,
        context_tokens=room,
        prefill_tokens_per_second=traffic.input_tokens / prefill,
        output_tokens_per_second=output,
        low=output * step.measured.low,
        high=output * step.measured.high,
        first_token_seconds=step.first_token_seconds(batch, traffic),
        next_token_seconds=step.next_token_seconds(batch, traffic),
        replicas=None if wanted is None else max(1, ceil(wanted * a_request / step.measured.low)),
        input_micros=None if a_second is None else round(a_second * prefill / traffic.input_tokens * _MILLION),
        output_micros=None if a_second is None else round(a_second * decode / batch * _MILLION),
        api_break_even_per_second=even,
    )


@dataclass(frozen=True, slots=True)
class Roofline:
    """The times of a model on its GPUs: those of a pipeline work on parts of a batch at the same time."""

    fit: Fit
    work: Work
    board: Board
    shape: Shape
    measured: Efficiency

    @property
    def _is_mixed(self) -> bool:
        return self.shape.expert_layers > 0

    def _flops(self, efficiency: float) -> float:
        """Arithmetic a second of one GPU in the precision of the weights, 16 bits where it only holds them."""
        name, board, share = self.work.precision.name, self.board, 1.0
        peak: int | None = None
        if self.fit.note is None and name in ("fp8", "int8"):
            peak = board.fp8_flops
        elif self.fit.note is None and name in ("nvfp4", "mxfp4"):
            peak, share = board.fp4_flops, self.measured.four_bits
        return (peak * share if peak is not None else board.flops) * efficiency

    @property
    def _active(self) -> int:
        """Parameters that a token is multiplied with: the embedding is looked up."""
        ends = 0 if self.shape.is_tied else self.shape.vocabulary * self.shape.hidden
        return self.shape.active_parameters - ends

    def _exchange_seconds(self) -> float:
        """Time to sum a token's layers over the GPUs that split them: two sums of its hidden values a layer."""
        tensor = self.fit.memory.sharding.tensor
        moved = 2 * 2 * self.shape.layers * self.shape.hidden * 2 * (tensor - 1) / tensor
        return moved / (self.board.link_bytes_per_second * self.measured.links)

    def prefill_seconds(self, tokens: int) -> float:
        """Time that a prompt takes of a copy; over a pipeline's stages prompts follow one another."""
        measured, sharding = self.measured, self.fit.memory.sharding
        gpus = sharding.tensor * sharding.pipeline
        flops = self._flops(measured.expert_prefill if self._is_mixed else measured.prefill)
        seen = self.shape.full_layers * tokens / 2 + self.shape.windowed_layers * min(tokens / 2, self.shape.window)
        attention = 4 * self.shape.query_width * seen / (self.board.flops * measured.attention)
        return tokens * ((2 * self._active / flops + attention) / gpus + self._exchange_seconds() / sharding.pipeline)

    def decode_seconds(self, batch: int, traffic: Traffic) -> float:
        """Time in which a copy gives each of a batch its next token, all stages of a pipeline at work."""
        measured, shape, sharding = self.measured, self.shape, self.fit.memory.sharding
        part = batch / sharding.pipeline
        bandwidth = self.board.memory_bytes_per_second * measured.memory
        tokens = traffic.input_tokens + traffic.output_tokens // 2
        cached = part * _cache_of(shape, self.work, self.fit, tokens)
        reading = (self._read_bytes(part) + cached) / bandwidth
        flops = self._flops(measured.expert_decode if self._is_mixed else measured.decode)
        arithmetic = 2 * self._active * part / (sharding.tensor * sharding.pipeline) / flops
        stage = float((reading**measured.blend + arithmetic**measured.blend) ** (1 / measured.blend))
        a_layer = measured.expert_layer_seconds if self._is_mixed else measured.layer_seconds
        a_layer += 2 * measured.exchange_seconds if sharding.tensor > 1 else 0
        hosts = part / (sharding.tensor if self._is_mixed else 1)
        beside = (a_layer * shape.layers + part * self._exchange_seconds()) / sharding.pipeline
        return (stage + beside + measured.step_seconds + hosts * measured.token_seconds) * sharding.pipeline

    def _read_bytes(self, tokens: float) -> float:
        """Return the bytes of weights that a step reads on a GPU: of experts those that some token meets."""
        weights, parts = self.fit.memory.of("weights") or 0, self.shape.parts()
        experts = weights * parts.expert / parts.total
        met = 1 - (1 - self.shape.experts_active / self.shape.experts) ** tokens if self._is_mixed else 0
        return weights - experts + experts * met

    def request_seconds(self, batch: int, traffic: Traffic) -> float:
        """Time that a copy spends on a request: its prompt, and its share of each step."""
        decode = self.decode_seconds(batch, traffic) * traffic.output_tokens / batch
        return self.prefill_seconds(traffic.input_tokens) + decode

    def next_token_seconds(self, batch: int, traffic: Traffic) -> float:
        """Time between two tokens of a request: a step, and the prompts of others that come between."""
        return self.request_seconds(batch, traffic) * batch / traffic.output_tokens

    def first_token_seconds(self, batch: int, traffic: Traffic) -> float:
        """Time to the first token: its prompt among others' prompts, and a step."""
        prefill = self.prefill_seconds(traffic.input_tokens)
        waiting = 1 - prefill / self.request_seconds(batch, traffic)
        return prefill * self.fit.memory.sharding.pipeline / max(waiting, 0.05) + self.decode_seconds(batch, traffic)

    def keeps(self, traffic: Traffic, batch: int) -> bool:
        """Say whether both latencies are kept at a batch."""
        return (
            self.next_token_seconds(batch, traffic) <= traffic.next_token_seconds
            and self.first_token_seconds(batch, traffic) <= traffic.first_token_seconds
        )


@dataclass(frozen=True, slots=True)
class TrainingTime:
    """How long the GPUs of a fit train on so many tokens, and what that costs; `low` and `high` by the MFU.

    `host_bytes_per_second` is what each host must exchange with the others for that, None on one host.
    """

    seconds: int
    low: int
    high: int
    micros: int | None
    mfu: float
    host_bytes_per_second: int | None


def training_time(fit: Fit, model: Model, work: Work, tokens: int, mfu: float | None = None) -> TrainingTime | Unknown:
    """Return how long and how dear a training is, by its tokens and its MFU; or why that is not known.

    Six operations a parameter and token, four where weights get no gradient. Source: Kaplan et al. 2020, section 2.1.
    """
    board = board_of(fit.kind.sku) if mfu is not None else _measured_board(fit.kind.sku)
    if board is None or isinstance(board, Unknown):
        return board or Unknown(_NO_FIGURES)
    active = model.shape.active_parameters if model.shape else model.parameters
    needed = (6 if work.purpose == "full" else 4) * active * tokens
    least, usual, most = (mfu, mfu, mfu) if mfu is not None else _MFU
    low, middle, high = (ceil(needed / (fit.gpus * board.flops * share)) for share in (most, usual, least))
    micros = fit.micros_per_hour
    return TrainingTime(
        seconds=middle,
        low=low,
        high=high,
        micros=None if micros is None else micros * middle // HOUR_SECONDS,
        mfu=usual,
        host_bytes_per_second=_host_exchange(fit, model, work, board, usual),
    )


def _host_exchange(fit: Fit, model: Model, work: Work, board: Board, mfu: float) -> int | None:
    """Return the bytes a second between hosts that keep the GPUs at this MFU: gradients are summed while they compute.

    A ring moves twice the gradients of what a host has a share of, and ZeRO-3 half as much again for weights.
    """
    sharding = fit.memory.sharding
    if fit.nodes < 2 or sharding.data < 2:
        return None
    active = model.shape.active_parameters if model.shape else model.parameters
    share = 1.0 if work.purpose == "full" else 0.02
    moved = 2 * _GRADIENT_BYTES * model.parameters * share * (1.5 if sharding.zero == 3 else 1)
    gpus = fit.gpus // fit.nodes
    step = 6 * active * work.tokens * (gpus / (sharding.tensor * sharding.pipeline)) / (gpus * board.flops * mfu)
    return ceil(moved / step)


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """What is to be trained: on so many tokens, at this MFU (None: as is usual)."""

    tokens: int
    mfu: float | None = None


@dataclass(frozen=True, slots=True)
class Paced:
    """The GPUs of one kind that do what is asked for least, and how fast; or why nothing is said of them."""

    fit: Fit
    pace: Speed | TrainingTime | Unknown

    @property
    def micros(self) -> int | None:
        """What it all costs: an hour of all replicas, or the whole training; None where that is not known."""
        hourly = self.fit.micros_per_hour
        if isinstance(self.pace, TrainingTime):
            return self.pace.micros
        if isinstance(self.pace, Unknown) or hourly is None:
            return None
        return hourly * (self.pace.replicas or 1)


def paced(fits: Sequence[Fit], model: Model, work: Work, asked: Traffic | TrainingRun) -> tuple[Paced, ...]:
    """Return how fast each kind does what is asked, the cheapest first and what is not known last.

    Of a service more GPUs of a node are tried than hold the model: they may be needed for a latency, or be cheaper.
    """
    if isinstance(asked, TrainingRun):
        found = [Paced(fit, training_time(fit, model, work, asked.tokens, asked.mfu)) for fit in fits]
        return tuple(sorted(found, key=_rank))
    served = [
        min((Paced(one, speed(one, model, work, asked)) for one in _wider(fit, model, work)), key=_rank) for fit in fits
    ]
    return tuple(sorted(served, key=_rank))


def _wider(fit: Fit, model: Model, work: Work) -> Iterator[Fit]:
    """Yield a fit, and the same kind with twice the GPUs as long as they are on one node."""
    yield fit
    gpus = fit.gpus * 2
    while gpus <= fit.kind.gpus_a_node:
        more, _ = fitting_offers(model, work, [fit.kind], GpuRequest(gpus))
        yield from more
        gpus *= 2


def _rank(one: Paced) -> tuple[bool, bool, float, int]:
    pace, micros = one.pace, one.micros
    if isinstance(pace, Speed) and pace.replicas is None and pace.output_micros is not None:
        return False, False, pace.output_micros, one.fit.gpus
    return isinstance(pace, Unknown), micros is None, micros or 0, one.fit.gpus


def traffic_of(
    tokens: str, requests: float | None, ttft: float | None, next_token: float | None, api: str | None
) -> Traffic:
    """Return what a service is asked, as somebody says it: tokens "1000,200", an API's price "0.50,1.50" in dollars.

    Raises:
        ConfigError: it cannot be read, or is none that a service is asked.
    """
    counts = _pair(tokens, "--traffic", "tokens in and out of a request, such as 1000,200")
    if min(counts) < 1 or max(counts) > _MOST_CONTEXT or any(count % 1 for count in counts):
        raise ConfigError(f"--traffic {tokens} must be whole numbers of tokens from 1 to {_MOST_CONTEXT:,}")
    for flag, value in (("requests-per-second", requests), ("ttft", ttft), ("inter-token", next_token)):
        if value is not None and not 0 < value < inf:
            raise ConfigError(f"--{flag} {value} must be more than 0")
    prices = _pair(api, "--api-price", "dollars for a million tokens in and out, such as 0.50,1.50") if api else None
    if prices and (min(prices) < 0 or max(prices) > _MILLION):
        raise ConfigError(f"--api-price {api} must be dollars for a million tokens, from 0 on")
    return Traffic(
        int(counts[0]),
        int(counts[1]),
        requests,
        ttft or inf,
        next_token or inf,
        (round(prices[0] * _MILLION), round(prices[1] * _MILLION)) if prices else None,
    )


def _pair(said: str, flag: str, what: str) -> tuple[float, float]:
    parts = said.replace("_", "").split(",")
    try:
        first, second = (float(part) for part in parts)
        if not isfinite(first + second):
            raise ValueError
    except ValueError:
        raise ConfigError(f"{flag} {said} cannot be read: it is {what}") from None
    return first, second
