"""What each serving stack calls what we want to know, by version, and the page of one as facts.

Sources: vLLM vllm/engine/metrics.py (V0) and vllm/v1/metrics/loggers.py (V1: `kv_cache_usage_perc` since 0.9, the
label `engine`); Triton docs/user_guide/metrics.md, and the metrics that its TensorRT-LLM and vLLM backends add; TGI
docs/source/reference/metrics.md and router/src/server.rs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.services.exposition import Sample, samples
from agent.services.histogram import Buckets, merged

MODEL_CHARACTERS_MAX = 200
Samples = Mapping[str, list[Sample]]
Labels = Mapping[str, str]


def _any(_: Labels) -> bool:
    return True


def _success(labels: Labels) -> bool:
    """V1 counts every end here: a client that went away, or an error, is no success."""
    return labels.get("finished_reason") not in ("abort", "error")


@dataclass(frozen=True, slots=True)
class Series:
    """One metric, or the part of it with certain labels."""

    name: str
    where: Callable[[Labels], bool] = _any


@dataclass(frozen=True, slots=True)
class Engine:
    """How one serving stack is known, and where its columns are found: the first series that there is.

    Counters and queues are added up over models, engines and GPUs; ratios are averaged.
    """

    name: str
    marks: tuple[str, ...]  # whose page has one of these is of this engine
    counters: Mapping[str, tuple[Series, ...]]
    gauges: Mapping[str, tuple[Series, ...]]
    ratios: Mapping[str, tuple[Series, ...]]
    first_response: str | None  # a histogram of the seconds until the first token
    model_label: str | None  # names the model on each of its series

    def names(self) -> set[str]:
        """Return the sample names that are read."""
        columns = (*self.counters.values(), *self.gauges.values(), *self.ratios.values())
        first = {f"{self.first_response}_bucket"} if self.first_response else set()
        return {series.name for column in columns for series in column} | first | set(self.marks)


@dataclass(frozen=True, slots=True)
class Page:
    """What one page says: ever-growing counters, what holds now, and the histogram of the time to the first token."""

    engine: str
    counters: Mapping[str, float]
    now: Mapping[str, int | float]
    first_token: Buckets | None
    model: str | None = None  # None where it serves several, or does not say


_TOKENS = {
    "tokens_in": (Series("vllm:prompt_tokens_total"),),
    "tokens_out": (Series("vllm:generation_tokens_total"),),
}
_VLLM_CACHE = (Series("vllm:kv_cache_usage_perc"), Series("vllm:gpu_cache_usage_perc"))

VLLM = Engine(
    name="vllm",
    marks=("vllm:num_requests_running", "vllm:num_requests_waiting"),
    counters={"requests": (Series("vllm:request_success_total", _success),), **_TOKENS},
    gauges={
        "running": (Series("vllm:num_requests_running"),),
        "waiting": (Series("vllm:num_requests_waiting"),),
    },
    ratios={"kv_cache_ratio": _VLLM_CACHE},
    first_response="vllm:time_to_first_token_seconds",
    model_label="model_name",
)

# Its tokens are known only where the backend is vLLM. nv_inference_first_response_histogram_ms is not taken: for a
# model that does not stream it is the whole request.
TRITON = Engine(
    name="triton",
    marks=("nv_inference_request_success",),
    counters={"requests": (Series("nv_inference_request_success"),), **_TOKENS},
    gauges={
        "running": (
            Series("nv_trt_llm_request_metrics", lambda labels: labels.get("request_type") == "scheduled"),
            Series("vllm:num_requests_running"),
        ),
        "waiting": (
            Series("nv_trt_llm_request_metrics", lambda labels: labels.get("request_type") == "waiting"),
            Series("vllm:num_requests_waiting"),
            Series("nv_inference_pending_request_count"),
        ),
    },
    ratios={
        "kv_cache_ratio": (
            Series("nv_trt_llm_kv_cache_block_metrics", lambda labels: labels.get("kv_cache_block_type") == "fraction"),
            *_VLLM_CACHE,
        )
    },
    first_response="vllm:time_to_first_token_seconds",
    model_label="model",
)

# It has no time to the first token, and says nothing of a counter before the first request.
TGI = Engine(
    name="tgi",
    marks=("tgi_queue_size", "tgi_request_count", "tgi_batch_current_size"),
    counters={
        "requests": (Series("tgi_request_success"), Series("tgi_request_success_total")),
        "tokens_in": (Series("tgi_request_input_length_sum"),),
        "tokens_out": (Series("tgi_request_generated_tokens_sum"),),
    },
    gauges={
        "running": (Series("tgi_batch_current_size"),),
        "waiting": (Series("tgi_queue_size"),),
    },
    ratios={},
    first_response=None,
    model_label=None,
)

ENGINES = (TRITON, VLLM, TGI)  # Triton first: with its vLLM backend it says both


def read_page(text: str) -> Page | None:
    """Return what a page of /metrics says, or None where it is of no engine that is known. Pure."""
    found = samples(text, frozenset[str]().union(*(engine.names() for engine in ENGINES)))
    for engine in ENGINES:
        if any(mark in found for mark in engine.marks):
            return _page(engine, found)
    return None


def _page(engine: Engine, found: Samples) -> Page:
    counters = _columns(engine.counters, found, sum)
    queues = {column: round(value) for column, value in _columns(engine.gauges, found, sum).items()}
    ratios = _columns(engine.ratios, found, lambda values: sum(values) / len(values))
    first_token = merged(found.get(f"{engine.first_response}_bucket", ()))
    return Page(engine.name, counters, {**queues, **ratios}, first_token, _model(engine, found))


def _model(engine: Engine, found: Samples) -> str | None:
    """Return the one model that all series are of, or None: which of several a GPU's time went to, no page says."""
    label = engine.model_label or ""
    said = {sample.labels[label] for series in found.values() for sample in series if sample.labels.get(label)}
    return said.pop()[:MODEL_CHARACTERS_MAX] if len(said) == 1 else None


def _columns(
    columns: Mapping[str, tuple[Series, ...]], found: Samples, combined: Callable[[list[float]], float]
) -> dict[str, float]:
    """Return each column that has a series; of several names for it the first one counts."""
    values: dict[str, float] = {}
    for column, names in columns.items():
        for series in names:
            said = [sample.value for sample in found.get(series.name, ()) if series.where(sample.labels)]
            if said and all(0 <= value < float("inf") for value in said):
                values[column] = combined(said)
                break
    return values
