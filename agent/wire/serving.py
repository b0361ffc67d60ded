"""What each serving stack calls what we want to know, by version: for agents, which read its page, and for Prometheus.

Sources: vLLM vllm/engine/metrics.py (V0) and vllm/v1/metrics/loggers.py (V1: `kv_cache_usage_perc` since 0.9, the
label `engine`); Triton docs/user_guide/metrics.md, and the metrics that its TensorRT-LLM and vLLM backends add; TGI
docs/source/reference/metrics.md and router/src/server.rs.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Series:
    """One metric, or the part of it whose label has one value, or none of several."""

    name: str
    only: tuple[str, str] | None = None
    unless: tuple[str, tuple[str, ...]] | None = None

    def counts(self, labels: Mapping[str, str]) -> bool:
        """Say whether a sample with these labels is of it."""
        is_only = self.only is None or labels.get(self.only[0]) == self.only[1]
        return is_only and (self.unless is None or labels.get(self.unless[0]) not in self.unless[1])


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


# V1 counts every end as a success: a client that went away, or an error, is none.
_FAILED = ("finished_reason", ("abort", "error"))
_TOKENS = {
    "tokens_in": (Series("vllm:prompt_tokens_total"),),
    "tokens_out": (Series("vllm:generation_tokens_total"),),
}
_VLLM_CACHE = (Series("vllm:kv_cache_usage_perc"), Series("vllm:gpu_cache_usage_perc"))

VLLM = Engine(
    name="vllm",
    marks=("vllm:num_requests_running", "vllm:num_requests_waiting"),
    counters={"requests": (Series("vllm:request_success_total", unless=_FAILED),), **_TOKENS},
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
            Series("nv_trt_llm_request_metrics", ("request_type", "scheduled")),
            Series("vllm:num_requests_running"),
        ),
        "waiting": (
            Series("nv_trt_llm_request_metrics", ("request_type", "waiting")),
            Series("vllm:num_requests_waiting"),
            Series("nv_inference_pending_request_count"),
        ),
    },
    ratios={
        "kv_cache_ratio": (
            Series("nv_trt_llm_kv_cache_block_metrics", ("kv_cache_block_type", "fraction")),
            *_VLLM_CACHE,
        )
    },
    first_response="vllm:time_to_first_token_seconds",
    model_label="model",
)

# It has no time to the first token, and says nothing of a counter before the first request.
_TGI = Engine(
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

ENGINES = (TRITON, VLLM, _TGI)  # Triton first: with its vLLM backend it says both
