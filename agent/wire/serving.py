"""What each serving engine calls what we want to know, a table each: for agents, which read its page, and Prometheus.

Sources: vLLM vllm/engine/metrics.py (V0) and vllm/v1/metrics/loggers.py (V1: `kv_cache_usage_perc` since 0.9, the
label `engine`), and v1/metrics/ray_wrappers.py (Ray's names); NIM for LLMs, "Observability" (vLLM's names without their
prefix, at /v1/metrics); SGLang python/sglang/srt/metrics/collector.py; TensorRT-LLM tensorrt_llm/metrics/collector.py
(`trtllm_`, within older Dynamo `trtllm:`; at /prometheus/metrics); Dynamo lib/llm/src/http/service/metrics.rs (its
frontend); Triton docs/user_guide/metrics.md, and what its TensorRT-LLM and vLLM backends add; TGI router/src/server.rs;
TEI core/src/infer.rs and queue.rs; LMDeploy lmdeploy/metrics/loggers.py; llama.cpp tools/server/README.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


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


_Columns = Mapping[str, tuple[Series, ...]]


@dataclass(frozen=True, slots=True)
class Engine:
    """How one serving engine is known, and where its columns are found: the first series that there is.

    Counters and queues are added up over models, engines and GPUs; ratios are averaged.
    """

    name: str
    marks: tuple[str, ...]  # whose page has one of these is of this engine
    counters: _Columns
    gauges: _Columns = field(default_factory=dict)
    ratios: _Columns = field(default_factory=dict)
    first_response: tuple[str, ...] = ()  # a histogram of the seconds until the first token, by its names
    model_label: str | None = None  # names the model on each of its series
    role_label: str | None = None  # has `prefill` or `decode` where a server is a half of one
    half_marks: tuple[str, ...] = ()  # only a server that is a half of one, whose role nobody tells, has these
    has_ensembles: bool = False  # a request counts for an ensemble of models and for each of its members
    is_bare: bool = False  # its names have no prefix: known on a page of its own, and not among other metrics

    def names(self) -> set[str]:
        """Return the sample names that are read."""
        columns = (*self.counters.values(), *self.gauges.values(), *self.ratios.values())
        first = {f"{name}_bucket" for name in self.first_response}
        return {series.name for column in columns for series in column} | first | {*self.marks, *self.half_marks}


def _named(stems: str, *forms: str) -> tuple[Series, ...]:
    """Return the series of these stems, by words, in each of the forms that an engine's names have had."""
    return tuple(Series(form.format(stem)) for stem in stems.split() for form in forms)


# V1 counts every end as a success: a client that went away, or an error, is none.
_FAILED = ("finished_reason", ("abort", "error"))
_TOKENS: _Columns = {
    "tokens_in": (Series("vllm:prompt_tokens_total"),),
    "tokens_out": (Series("vllm:generation_tokens_total"),),
}
_VLLM_CACHE = (Series("vllm:kv_cache_usage_perc"), Series("vllm:gpu_cache_usage_perc"))


def _of_vllm(name: str, *forms: str, is_bare: bool = False) -> Engine:
    """Return vLLM, as its names are within a product. Only one that hands KV caches on has NIXL's names."""
    requests = _named("request_success_total", *forms)
    return Engine(
        name=name,
        marks=tuple(series.name for series in _named("num_requests_running num_requests_waiting", *forms)),
        counters={
            "requests": tuple(Series(series.name, unless=_FAILED) for series in requests),
            "tokens_in": _named("prompt_tokens_total", *forms),
            "tokens_out": _named("generation_tokens_total", *forms),
        },
        gauges={
            "running": _named("num_requests_running", *forms),
            "waiting": _named("num_requests_waiting", *forms),
        },
        ratios={"kv_cache_ratio": _named("kv_cache_usage_perc gpu_cache_usage_perc", *forms)},
        first_response=tuple(form.format("time_to_first_token_seconds") for form in forms),
        model_label="model_name",
        half_marks=tuple(series.name for series in _named("nixl_xfer_time_seconds_count", *forms)),
        is_bare=is_bare,
    )


VLLM = _of_vllm("vllm", "vllm:{}")
_RAY = _of_vllm("ray", "ray_vllm_{}", "ray_vllm:{}")
_NIM = _of_vllm("nim", "{}", is_bare=True)

# nv_inference_first_response_histogram_ms is not taken: for a model that does not stream it is the whole request.
TRITON = Engine(
    name="triton",
    marks=("nv_inference_request_success",),
    counters={
        "requests": (Series("nv_inference_request_success"),),
        "tokens_in": (
            *_TOKENS["tokens_in"],
            Series("nv_llm_input_token_len_sum", ("response_metric_type", "total_input_tokens")),
        ),
        "tokens_out": (
            *_TOKENS["tokens_out"],
            Series("nv_llm_output_token_len_sum", ("response_metric_type", "total_output_tokens")),
        ),
    },
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
    first_response=("vllm:time_to_first_token_seconds",),
    model_label="model",
    has_ensembles=True,
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
)

# Every rank of a tensor-parallel server may say its queue, and all say the same.
_RANKS = ("tp_rank", tuple(str(rank) for rank in range(1, 64)))
_SGLANG_FORMS = ("sglang:{}", "sglang_{}")
_SGLANG = Engine(
    name="sglang",
    marks=tuple(series.name for series in _named("num_running_reqs num_queue_reqs", *_SGLANG_FORMS)),
    counters={
        "requests": _named("num_requests_total", *_SGLANG_FORMS),
        "tokens_in": _named("prompt_tokens_total", *_SGLANG_FORMS),
        "tokens_out": _named("generation_tokens_total", *_SGLANG_FORMS),
    },
    gauges={
        "running": tuple(Series(one.name, unless=_RANKS) for one in _named("num_running_reqs", *_SGLANG_FORMS)),
        "waiting": tuple(Series(one.name, unless=_RANKS) for one in _named("num_queue_reqs", *_SGLANG_FORMS)),
    },
    ratios={"kv_cache_ratio": _named("token_usage", *_SGLANG_FORMS)},
    first_response=tuple(form.format("time_to_first_token_seconds") for form in _SGLANG_FORMS),
    model_label="model_name",
    role_label="engine_type",
)

_TRTLLM_FORMS = ("trtllm_{}", "trtllm:{}")
_TENSORRT_LLM = Engine(
    name="tensorrt_llm",
    marks=tuple(
        series.name
        for series in _named(
            "request_success_total kv_cache_utilization kv_cache_hit_rate time_to_first_token_seconds_count",
            *_TRTLLM_FORMS,
        )
    ),
    counters={
        "requests": tuple(Series(one.name, unless=_FAILED) for one in _named("request_success_total", *_TRTLLM_FORMS)),
        "tokens_in": _named("prompt_tokens_total", *_TRTLLM_FORMS),
        "tokens_out": _named("generation_tokens_total", *_TRTLLM_FORMS),
    },
    gauges={
        "running": _named("num_active_requests num_requests_running", *_TRTLLM_FORMS),
        "waiting": _named("server_queue_length num_requests_waiting", *_TRTLLM_FORMS),
    },
    ratios={"kv_cache_ratio": _named("kv_cache_utilization", *_TRTLLM_FORMS)},
    first_response=tuple(form.format("time_to_first_token_seconds") for form in _TRTLLM_FORMS),
    model_label="model_name",
)

# The frontend, which sees each request once, whatever engines work behind it.
_DYNAMO = Engine(
    name="dynamo",
    marks=("dynamo_frontend_requests_total", "dynamo_frontend_inflight_requests", "dynamo_frontend_queued_requests"),
    counters={
        "requests": (Series("dynamo_frontend_requests_total", unless=("status", ("error",))),),
        "tokens_in": (Series("dynamo_frontend_input_sequence_tokens_sum"),),
        "tokens_out": (
            Series("dynamo_frontend_output_tokens_total"),
            Series("dynamo_frontend_output_sequence_tokens_sum"),
        ),
    },
    gauges={
        "running": (Series("dynamo_frontend_inflight_requests"),),
        "waiting": (Series("dynamo_frontend_queued_requests"),),
    },
    first_response=("dynamo_frontend_time_to_first_token_seconds",),
    model_label="model",
)

_LLAMA_CPP = Engine(
    name="llamacpp",
    marks=("llamacpp:requests_processing", "llamacpp:tokens_predicted_total"),
    counters={
        "tokens_in": (Series("llamacpp:prompt_tokens_total"),),
        "tokens_out": (Series("llamacpp:tokens_predicted_total"),),
    },
    gauges={
        "running": (Series("llamacpp:requests_processing"),),
        "waiting": (Series("llamacpp:requests_deferred"),),
    },
    ratios={"kv_cache_ratio": (Series("llamacpp:kv_cache_usage_ratio"),)},
)

# Embeddings: tokens in, and none out.
_TEI = Engine(
    name="tei",
    marks=("te_request_count", "te_request_success", "te_queue_size"),
    counters={
        "requests": (Series("te_request_success"),),
        "tokens_in": (Series("te_batch_next_tokens_sum"),),
    },
    gauges={"waiting": (Series("te_queue_size"),)},
)

_LMDEPLOY_FAILED = (
    "finished_reason",
    tuple(
        f"{form}{reason}"
        for reason in ("CANCEL", "INTERNAL_ENGINE_ERROR", "ENGINE_STOP_ERROR", "INPUT_LENGTH_ERROR", "NO_QUEUE")
        for form in ("", "ResponseType.")
    ),
)
_LMDEPLOY = Engine(
    name="lmdeploy",
    marks=("lmdeploy:num_requests_running", "lmdeploy:num_requests_waiting"),
    counters={
        "requests": (Series("lmdeploy:request_success_total", unless=_LMDEPLOY_FAILED),),
        "tokens_in": (Series("lmdeploy:prompt_tokens_total"),),
        "tokens_out": (Series("lmdeploy:generation_tokens_total"),),
    },
    gauges={
        "running": (Series("lmdeploy:num_requests_running"),),
        "waiting": (Series("lmdeploy:num_requests_waiting"),),
    },
    ratios={"kv_cache_ratio": (Series("lmdeploy:gpu_cache_usage_perc"),)},
    first_response=("lmdeploy:time_to_first_token_seconds",),
    model_label="model_name",
)

# In the order in which a page is asked: Triton and Dynamo pass on what others say, and bare names may be anybody's.
ENGINES = (TRITON, _DYNAMO, VLLM, _RAY, _SGLANG, _TENSORRT_LLM, _LMDEPLOY, _TGI, _TEI, _LLAMA_CPP, _NIM)

# Labels that tell events of one server apart, and not servers, engines or models from one another.
WITHIN_A_PART = frozenset({
    "le", "finished_reason", "status", "error_type", "endpoint", "request_type", "response_metric_type", "method",
    "kv_cache_block_type", "cache_source",
})  # fmt: skip
