"""Pages of serving engines, written here in the formats that the engines have; counters grow with each reading."""

from collections.abc import Callable, Sequence

BOUNDS = (0.01, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def histogram(name: str, labels: str, count: float, value: float, bounds: Sequence[float] = BOUNDS) -> list[str]:
    """Return a histogram of so many observations of one value."""
    lead = f"{labels}," if labels else ""
    lines = [f'{name}_bucket{{{lead}le="{bound}"}} {float(count if value <= bound else 0)}' for bound in bounds]
    return [*lines, f'{name}_bucket{{{lead}le="+Inf"}} {float(count)}', f"{name}_count{{{labels}}} {float(count)}"]


def vllm(
    done: int, engine: int = 0, model: str = "acme/chat", form: str = "vllm:{}", first: float = 0.2, tokens: int = 50
) -> str:
    """Return the lines of one vLLM engine that has answered so many requests of 100 tokens; V1's names."""
    labels = f'engine="{engine}",model_name="{model}"'
    lines = [
        f"num_requests_running{{{labels}}} 2.0",
        f"num_requests_waiting{{{labels}}} 1.0",
        f"kv_cache_usage_perc{{{labels}}} 0.25",
        f"prompt_tokens_total{{{labels}}} {done * 100.0}",
        f"generation_tokens_total{{{labels}}} {float(done * tokens)}",
        f'request_success_total{{{labels},finished_reason="stop"}} {float(done - done // 4)}',
        f'request_success_total{{{labels},finished_reason="length"}} {float(done // 4)}',
        f'request_success_total{{{labels},finished_reason="abort"}} 7.0',
        f'request_success_total{{{labels},finished_reason="error"}} {float(done // 5)}',
        f"prompt_tokens_cached_total{{{labels}}} {done * 40.0}",
        f"prefix_cache_hits_total{{{labels}}} {done * 48.0}",
        *histogram("time_to_first_token_seconds", labels, done, first),
        *histogram("inter_token_latency_seconds", labels, done * tokens, 0.02),
    ]
    return "\n".join(form.format(line) for line in lines) + "\n"


def _sglang(done: int) -> str:
    labels = 'engine_type="unified",model_name="acme/chat",tp_rank="{}",pp_rank="0"'
    plain = 'model_name="acme/chat"'
    ranks = [
        f"sglang:num_{what}_reqs{{{labels.format(rank)}}} 2.0" for rank in range(4) for what in ("running", "queue")
    ]
    return "\n".join(
        [
            *ranks,
            f"sglang:token_usage{{{labels.format(0)}}} 0.25",
            f"sglang:num_requests_total{{{plain}}} {float(done)}",
            f"sglang:prompt_tokens_total{{{plain}}} {done * 100.0}",
            f"sglang:generation_tokens_total{{{plain}}} {done * 50.0}",
            *(
                f'sglang:cached_tokens_total{{{plain},cache_source="{source}"}} {done * 20.0}'
                for source in ("device", "host")
            ),
            *(
                f'sglang:http_responses_total{{endpoint="/generate",method="POST",status_code="{status}"}} {count}'
                for status, count in (("200", done), ("400", 7 * done), ("503", done // 5))
            ),
            f"sglang:num_aborted_requests_total{{{plain}}} {3.0 * done}",
            *histogram("sglang:time_to_first_token_seconds", plain, done, 0.2),
            *histogram("sglang:inter_token_latency_seconds", plain, done * 50, 0.02),
        ]
    )


def _tensorrt_llm(done: int) -> str:
    labels = 'engine_type="trtllm",model_name="acme/chat"'
    return "\n".join(
        [
            *(
                f'trtllm_request_success_total{{{labels},finished_reason="{reason}"}} {count:.1f}'
                for reason, count in (("stop", done), ("cancelled", 3 * done), ("timeout", done // 5))
            ),
            f"trtllm_prompt_tokens_total{{{labels}}} {done * 100.0}",
            f"trtllm_generation_tokens_total{{{labels}}} {done * 50.0}",
            f"trtllm_num_active_requests{{{labels}}} 2.0",
            f"trtllm_server_queue_length{{{labels}}} 2.0",
            f"trtllm_kv_cache_utilization{{{labels}}} 0.25",
            *histogram("trtllm_time_to_first_token_seconds", labels, done, 0.2),
            *histogram("trtllm_time_per_output_token_seconds", labels, done, 0.02),
        ]
    )


def _dynamo(done: int) -> str:
    labels = 'dynamo_namespace="d",model="acme/chat"'
    ends = [("success", "", done), ("error", "cancelled", 3 * done), ("error", "internal", done // 5)]
    return "\n".join(
        [
            *(
                f'dynamo_frontend_requests_total{{{labels},request_type="stream",status="{status}",'
                f'error_type="{kind}"}} {count}'
                for status, kind, count in ends
            ),
            f"dynamo_frontend_input_sequence_tokens_sum{{{labels}}} {done * 100}",
            f"dynamo_frontend_output_tokens_total{{{labels}}} {done * 50}",
            f"dynamo_frontend_inflight_requests{{{labels}}} 2",
            f"dynamo_frontend_queued_requests{{{labels}}} 2",
            f"dynamo_frontend_cached_tokens_sum{{{labels}}} {done * 40}",
            *histogram("dynamo_frontend_time_to_first_token_seconds", labels, done, 0.2),
            *histogram("dynamo_frontend_inter_token_latency_seconds", labels, done * 50, 0.02),
        ]
    )


def _llama_cpp(done: int) -> str:
    return (
        f"llamacpp:prompt_tokens_total {done * 100}\nllamacpp:tokens_predicted_total {done * 50}\n"
        "llamacpp:requests_processing 2\nllamacpp:requests_deferred 2\nllamacpp:kv_cache_usage_ratio 0.25\n"
    )


def _tei(done: int) -> str:
    return (
        f'te_request_count{{method="single"}} {done + 1}\nte_request_success{{method="single"}} {done // 2}\n'
        f'te_request_success{{method="batch"}} {done - done // 2}\n'
        f"te_batch_next_tokens_sum {done * 100}\nte_queue_size 2\n"
        f'te_request_failure{{err="tokenization"}} {done // 5}\n'
    )


def _lmdeploy(done: int) -> str:
    labels = 'model_name="acme/chat",engine="0"'
    return "\n".join(
        [
            f'lmdeploy:request_success_total{{{labels},finished_reason="ResponseType.FINISH"}} {float(done)}',
            f'lmdeploy:request_success_total{{{labels},finished_reason="ResponseType.CANCEL"}} 5.0',
            f'lmdeploy:request_success_total{{{labels},finished_reason="ResponseType.NO_QUEUE"}} {float(done // 5)}',
            f"lmdeploy:prompt_tokens_total{{{labels}}} {done * 100.0}",
            f"lmdeploy:generation_tokens_total{{{labels}}} {done * 50.0}",
            f"lmdeploy:num_requests_running{{{labels}}} 2.0",
            f"lmdeploy:num_requests_waiting{{{labels}}} 2.0",
            f"lmdeploy:gpu_cache_usage_perc{{{labels}}} 0.25",
            *histogram("lmdeploy:time_to_first_token_seconds", labels, done, 0.2),
            *histogram("lmdeploy:iter_token_latency", labels, done * 50, 0.02),
        ]
    )


def _tgi(done: int) -> str:
    return "\n".join(
        [
            f"tgi_request_success {done}",
            *(
                f'tgi_request_failure{{err="{why}"}} {count}'
                for why, count in (("dropped", done), ("generation", done // 5))
            ),
            f"tgi_request_input_length_sum {done * 100}",
            f"tgi_request_generated_tokens_sum {done * 50}",
            "tgi_batch_current_size 2",
            "tgi_queue_size 2",
            *histogram("tgi_request_mean_time_per_token_duration", "", done, 0.02),
        ]
    )


def triton(done: int) -> str:
    """Return Triton with an ensemble of three models, of which one tells its tokens."""
    lines = []
    for model in ("ensemble", "preprocessing", "tensorrt_llm", "postprocessing"):
        lines.append(f'nv_inference_request_success{{model="{model}",version="1"}} {done}')
        lines.append(f'nv_inference_pending_request_count{{model="{model}",version="1"}} 0')
        lines += [
            f'nv_inference_request_failure{{model="{model}",reason="{reason}",version="1"}} {count}'
            for reason, count in (("CANCELED", 3 * done), ("BACKEND", done // 5), ("OTHER", 0), ("REJECTED", 0))
        ]
    for kind, value in (("scheduled", 2), ("waiting", 2), ("max", 64)):
        lines.append(f'nv_trt_llm_request_metrics{{model="tensorrt_llm",request_type="{kind}",version="1"}} {value}')
    kind = 'kv_cache_block_type="fraction",model="tensorrt_llm",version="1"'
    lines.append(f"nv_trt_llm_kv_cache_block_metrics{{{kind}}} 0.25")
    for way, kind, each in (("input", "total_input_tokens", 100), ("output", "total_output_tokens", 50)):
        labels = f'model="tensorrt_llm",response_metric_type="{kind}",version="1"'
        lines.append(f"nv_llm_{way}_token_len_sum{{{labels}}} {done * each}")
    return "\n".join(lines) + "\n"


# Each with 10 requests, 1,000 tokens in, 400 of them cached, and 500 out between `page(10)` and `page(20)`; 2 more
# failed, and the clients of others went away.
ENGINE_PAGES: dict[str, Callable[[int], str]] = {
    "vllm": vllm,
    "ray": lambda done: vllm(done, form="ray_vllm_{}"),
    "nim": lambda done: vllm(done, form="{}"),
    "sglang": _sglang,
    "tensorrt_llm": _tensorrt_llm,
    "dynamo": _dynamo,
    "llamacpp": _llama_cpp,
    "tei": _tei,
    "tgi": _tgi,
    "lmdeploy": _lmdeploy,
    "triton": triton,
}
