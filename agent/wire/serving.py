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
    """One metric, or the part of it whose label has one of some values, or none of others."""

    name: str
    only: tuple[str, tuple[str, ...]] | None = None
    unless: tuple[str, tuple[str, ...]] | None = None

    def counts(self, labels: Mapping[str, str]) -> bool:
        """Say whether a sample with these labels is of it."""
        is_only = self.only is None or labels.get(self.only[0], "") in self.only[1]
        return is_only and (self.unless is None or labels.get(self.unless[0]) not in self.unless[1])


_Columns = Mapping[str, tuple[Series, ...]]
REQUESTS = ("requests", "requests_failed")  # which an ensemble of models and each of its members count


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
    between_tokens: tuple[str, ...] = ()  # one of the seconds from a token to the next, or of a request's mean of them
    model_label: str | None = None  # names the model on each of its series
    role_label: str | None = None  # has `prefill` or `decode` where a server is a half of one
    half_marks: tuple[str, ...] = ()  # only a server that is a half of one, whose role nobody tells, has these
    has_ensembles: bool = False  # a request counts for an ensemble of models and for each of its members
    is_bare: bool = False  # its names have no prefix: known on a page of its own, and not among other metrics

    def names(self) -> set[str]:
        """Return the sample names that are read."""
        columns = (*self.counters.values(), *self.gauges.values(), *self.ratios.values())
        buckets = {f"{name}_bucket" for name in (*self.first_response, *self.between_tokens)}
        return {series.name for column in columns for series in column} | buckets | {*self.marks, *self.half_marks}


def _named(stems: str, *forms: str) -> tuple[Series, ...]:
    """Return the series of these stems, by words, in each of the forms that an engine's names have had."""
    return tuple(Series(form.format(stem)) for stem in stems.split() for form in forms)


# V1 counts every end as a success: a client that went away is neither a success nor an error, and an error is none.
_FAILED = ("finished_reason", ("error",))
_ENDED_SHORT = ("finished_reason", ("abort", "error"))
_BETWEEN = "inter_token_latency_seconds time_per_output_token_seconds request_time_per_output_token_seconds"
_SERVER_ERRORS = ("status_code", tuple(str(status) for status in range(500, 600)))
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
            "requests": tuple(Series(series.name, unless=_ENDED_SHORT) for series in requests),
            "requests_failed": (
                *(Series(series.name, only=_FAILED) for series in requests),
                *_named("request_failure_total", *forms),
            ),
            "tokens_cached": _named("prompt_tokens_cached_total prefix_cache_hits_total", *forms),
            "tokens_in": _named("prompt_tokens_total", *forms),
            "tokens_out": _named("generation_tokens_total", *forms),
        },
        gauges={
            "running": _named("num_requests_running", *forms),
            "waiting": _named("num_requests_waiting", *forms),
        },
        ratios={"kv_cache_ratio": _named("kv_cache_usage_perc gpu_cache_usage_perc", *forms)},
        first_response=tuple(form.format("time_to_first_token_seconds") for form in forms),
        between_tokens=tuple(series.name for series in _named(_BETWEEN, *forms)),
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
        "requests_failed": (Series("nv_inference_request_failure", unless=("reason", ("CANCELED",))),),
        "tokens_cached": _named("prompt_tokens_cached_total prefix_cache_hits_total", "vllm:{}"),
        "tokens_in": (
            *_TOKENS["tokens_in"],
            Series("nv_llm_input_token_len_sum", ("response_metric_type", ("total_input_tokens",))),
        ),
        "tokens_out": (
            *_TOKENS["tokens_out"],
            Series("nv_llm_output_token_len_sum", ("response_metric_type", ("total_output_tokens",))),
        ),
    },
    gauges={
        "running": (
            Series("nv_trt_llm_request_metrics", ("request_type", ("scheduled",))),
            Series("vllm:num_requests_running"),
        ),
        "waiting": (
            Series("nv_trt_llm_request_metrics", ("request_type", ("waiting",))),
            Series("vllm:num_requests_waiting"),
            Series("nv_inference_pending_request_count"),
        ),
    },
    ratios={
        "kv_cache_ratio": (
            Series("nv_trt_llm_kv_cache_block_metrics", ("kv_cache_block_type", ("fraction",))),
            *_VLLM_CACHE,
        )
    },
    first_response=("vllm:time_to_first_token_seconds",),
    between_tokens=tuple(series.name for series in _named(_BETWEEN, "vllm:{}")),
    model_label="model",
    has_ensembles=True,
)

# It has no time to the first token, and says nothing of a counter before the first request.
_TGI = Engine(
    name="tgi",
    marks=("tgi_queue_size", "tgi_request_count", "tgi_batch_current_size"),
    counters={
        "requests": (Series("tgi_request_success"), Series("tgi_request_success_total")),
        "requests_failed": tuple(
            Series(name, unless=("err", ("dropped",))) for name in ("tgi_request_failure", "tgi_request_failure_total")
        ),
        "tokens_in": (Series("tgi_request_input_length_sum"),),
        "tokens_out": (Series("tgi_request_generated_tokens_sum"),),
    },
    gauges={
        "running": (Series("tgi_batch_current_size"),),
        "waiting": (Series("tgi_queue_size"),),
    },
    between_tokens=("tgi_request_mean_time_per_token_duration",),
)

# Every rank of a tensor- or pipeline-parallel server may say its queue, and all say the same.
RANKS = ("tp_rank", "pp_rank", "moe_ep_rank")
_SGLANG_FORMS = ("sglang:{}", "sglang_{}")
_WHOLE = ("priority", ("",))
_SGLANG = Engine(
    name="sglang",
    marks=tuple(series.name for series in _named("num_running_reqs num_queue_reqs", *_SGLANG_FORMS)),
    counters={
        "requests": _named("num_requests_total", *_SGLANG_FORMS),
        # what it calls aborted are clients that went away too
        "requests_failed": tuple(
            Series(one.name, only=_SERVER_ERRORS) for one in _named("http_responses_total", *_SGLANG_FORMS)
        ),
        "tokens_cached": _named("cached_tokens_total", *_SGLANG_FORMS),
        "tokens_in": _named("prompt_tokens_total", *_SGLANG_FORMS),
        "tokens_out": _named("generation_tokens_total", *_SGLANG_FORMS),
    },
    gauges={  # the whole, beside which it tells each priority where it schedules by them
        "running": tuple(Series(one.name, only=_WHOLE) for one in _named("num_running_reqs", *_SGLANG_FORMS)),
        "waiting": tuple(Series(one.name, only=_WHOLE) for one in _named("num_queue_reqs", *_SGLANG_FORMS)),
    },
    ratios={"kv_cache_ratio": _named("token_usage", *_SGLANG_FORMS)},
    first_response=tuple(form.format("time_to_first_token_seconds") for form in _SGLANG_FORMS),
    between_tokens=tuple(series.name for series in _named(_BETWEEN, *_SGLANG_FORMS)),
    model_label="model_name",
    role_label="engine_type",
)

_TRTLLM_FORMS = ("trtllm_{}", "trtllm:{}")
_TRTLLM_FAILED = ("finished_reason", ("error", "timeout"))
_TRTLLM_ENDED_SHORT = ("finished_reason", ("abort", "cancelled", "error", "timeout"))
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
        "requests": tuple(
            Series(one.name, unless=_TRTLLM_ENDED_SHORT) for one in _named("request_success_total", *_TRTLLM_FORMS)
        ),
        "requests_failed": tuple(
            Series(one.name, only=_TRTLLM_FAILED) for one in _named("request_success_total", *_TRTLLM_FORMS)
        ),
        "tokens_in": _named("prompt_tokens_total", *_TRTLLM_FORMS),
        "tokens_out": _named("generation_tokens_total", *_TRTLLM_FORMS),
    },
    gauges={
        "running": _named("num_active_requests num_requests_running", *_TRTLLM_FORMS),
        "waiting": _named("server_queue_length num_requests_waiting", *_TRTLLM_FORMS),
    },
    ratios={"kv_cache_ratio": _named("kv_cache_utilization", *_TRTLLM_FORMS)},
    first_response=tuple(form.format("time_to_first_token_seconds") for form in _TRTLLM_FORMS),
    between_tokens=tuple(series.name for series in _named(_BETWEEN, *_TRTLLM_FORMS)),
    model_label="model_name",
)

# The frontend, which sees each request once, whatever engines work behind it.
_DYNAMO = Engine(
    name="dynamo",
    marks=("dynamo_frontend_requests_total", "dynamo_frontend_inflight_requests", "dynamo_frontend_queued_requests"),
    counters={
        "requests": (Series("dynamo_frontend_requests_total", unless=("status", ("error",))),),
        "requests_failed": (
            Series("dynamo_frontend_requests_total", ("status", ("error",)), ("error_type", ("cancelled",))),
        ),
        "tokens_cached": (Series("dynamo_frontend_cached_tokens_sum"),),
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
    between_tokens=("dynamo_frontend_inter_token_latency_seconds",),
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
        "requests_failed": (Series("te_request_failure"),),
        "tokens_in": (Series("te_batch_next_tokens_sum"),),
    },
    gauges={"waiting": (Series("te_queue_size"),)},
)

_LMDEPLOY_ERRORS = ("INTERNAL_ENGINE_ERROR", "ENGINE_STOP_ERROR", "INPUT_LENGTH_ERROR", "NO_QUEUE")
_LMDEPLOY_FAILED, _LMDEPLOY_ENDED_SHORT = (
    ("finished_reason", tuple(f"{form}{reason}" for reason in reasons for form in ("", "ResponseType.")))
    for reasons in (_LMDEPLOY_ERRORS, (*_LMDEPLOY_ERRORS, "CANCEL"))
)
_LMDEPLOY = Engine(
    name="lmdeploy",
    marks=("lmdeploy:num_requests_running", "lmdeploy:num_requests_waiting"),
    counters={
        "requests": (Series("lmdeploy:request_success_total", unless=_LMDEPLOY_ENDED_SHORT),),
        "requests_failed": (Series("lmdeploy:request_success_total", only=_LMDEPLOY_FAILED),),
        "tokens_in": (Series("lmdeploy:prompt_tokens_total"),),
        "tokens_out": (Series("lmdeploy:generation_tokens_total"),),
    },
    gauges={
        "running": (Series("lmdeploy:num_requests_running"),),
        "waiting": (Series("lmdeploy:num_requests_waiting"),),
    },
    ratios={"kv_cache_ratio": (Series("lmdeploy:gpu_cache_usage_perc"),)},
    first_response=("lmdeploy:time_to_first_token_seconds",),
    between_tokens=("lmdeploy:iter_token_latency", "lmdeploy:time_per_output_token_seconds"),
    model_label="model_name",
)

# In the order in which a page is asked: Triton and Dynamo pass on what others say, and bare names may be anybody's.
ENGINES = (TRITON, _DYNAMO, VLLM, _RAY, _SGLANG, _TENSORRT_LLM, _LMDEPLOY, _TGI, _TEI, _LLAMA_CPP, _NIM)

# Labels that tell events of one server apart, and not servers, engines or models from one another.
WITHIN_A_PART = frozenset({
    "le", "finished_reason", "status", "status_code", "reason", "err", "error_type", "endpoint", "request_type",
    "response_metric_type", "method", "kv_cache_block_type", "cache_source", "is_streaming", "priority",
})  # fmt: skip
