"""Which stage of the pipeline a run is taken for: a service's stillness is a reserve, a training run's is a loss."""

import pytest

from analyzer.ledger.causes.stages import DEFAULT, RunNames, Stage, stage_named


def stage(names: RunNames) -> str:
    """Return the stage by which a run is booked."""
    found = stage_named(names)
    return found.word if found else DEFAULT


TABLE = [
    ("pretraining", "pretrain-7b", None),
    ("pretraining", "llama_pre_train", None),
    ("fine-tuning", "llama-sft", None),
    ("fine-tuning", "QLoRA-13b", None),
    ("fine-tuning", "fine_tune_bert", None),
    ("alignment", "grpo-math", None),
    ("alignment", "zephyr_dpo", None),
    ("alignment", "rlhf-reward", None),
    ("evaluation", "lm_eval-70b", None),
    ("evaluation", "eval-nightly", None),
    ("data preparation", "tokenize-web", None),
    ("deployment", "llama-export-onnx", None),
    ("deployment", "trtllm-build-8b", None),
    ("deployment", "quantize_awq", None),
    ("deployment", "vllm-canary", None),
    ("deployment", "hf-ckpt-conversion", None),
    ("deployment", "deploy-llama", None),
    ("serving", "vllm-llama-quantized", None),
    ("serving", "chat-serve-deployment", None),
    ("serving", "ranker-serve", None),
    ("serving", "vllm-llama", None),
    ("serving", "llm_serving", None),
    ("serving", "inference-eu", None),
    ("interactive", "jupyter-anna", None),
    ("interactive", "bash", "debug"),
    ("interactive", "pretrain-7b", "interactive"),
    ("serving", "pretrain-7b", "serving"),
    (DEFAULT, "resnet50", None),
    (DEFAULT, None, None),
    (DEFAULT, "", ""),
]


@pytest.mark.parametrize(("expected", "name", "queue"), TABLE)
def test_a_run_is_what_its_queue_and_then_its_name_say(expected: str, name: str | None, queue: str | None) -> None:
    """A queue is chosen for what it is; a name is what somebody typed."""
    assert stage(RunNames(name, queue, None)) == expected


@pytest.mark.parametrize("queue", ["reserved", "reserve-h100", "preserve", "observers"])
def test_a_reserved_queue_serves_nobody(queue: str) -> None:
    """Taken for a service, a training run's stand-still would be its headroom, and never be found."""
    assert stage(RunNames("resnet50", queue, None)) == DEFAULT


@pytest.mark.parametrize(
    "name", ["exploration-1", "support-tickets", "retrieval-train", "nutshells", "conversion-rate", "exporter"]
)
def test_a_word_within_a_word_says_nothing(name: str) -> None:
    """Exploration holds "lora", support "ppo", retrieval "eval", and what predicts conversions converts no model."""
    assert stage(RunNames(name, None, None)) == DEFAULT


def test_a_label_goes_before_everything() -> None:
    """Whoever labels a run knows best; another label does not speak of the stage."""
    assert stage(RunNames("vllm", "serving", '{"stage": "evaluation"}', True)) == "evaluation"
    assert stage(RunNames("vllm", None, '{"team": "nlp"}')) == "serving"


def test_a_replica_that_reports_requests_serves() -> None:
    """What a serving stack says of itself goes before any name."""
    assert stage(RunNames("pretrain-7b", "batch", None, has_service_samples=True)) == "serving"


@pytest.mark.parametrize(
    "labels", ["", "{", "[]", "null", '"stage"', '{"stage": 3}', '{"stage": ""}', '{"stage": null}']
)
def test_labels_that_are_no_object_of_texts_say_nothing(labels: str) -> None:
    """They come from schedulers as they are, and must not end an analysis."""
    assert stage(RunNames("vllm", None, labels)) == "serving"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (RunNames(None, "batch", '{"stage": "Finetune"}'), Stage("fine-tuning", "high", "by its label")),
        (RunNames(None, None, '{"stage": "pretraining"}'), Stage("pretraining", "high", "by its label")),
        (RunNames(None, None, '{"stage": "simulation"}'), Stage("simulation", "high", "by its label")),
        (RunNames(None, None, None, True), Stage("serving", "high", "by its request counter")),
        (RunNames("a", None, '{"ray_deployment": "LLM"}'), Stage("serving", "high", "by its Ray Serve name")),
        (RunNames("a", "eval", None), Stage("evaluation", "medium", "by its queue")),
        (RunNames("eval-1", "gpu", None), Stage("evaluation", "medium", "by its name")),
        (RunNames("eval-1", "gpu", '{"launcher": "vllm"}'), Stage("evaluation", "medium", "by its name")),
        (RunNames("a", "gpu", '{"launcher": "vllm"}'), Stage("serving", "medium", "by its launcher")),
        (
            RunNames("a", "gpu", '{"app.kubernetes.io/name": "trl"}'),
            Stage("fine-tuning", "medium", "by its launcher"),
        ),
        (RunNames("a", "gpu", '{"launcher": "torchrun"}'), None),
        (RunNames("train_resnet", "gpu", None), Stage("training", "medium", "by its name")),
        (RunNames("a", "h100-training", None), Stage("training", "medium", "by its queue")),
        (RunNames("train-7b", "train", '{"launcher": "trl"}'), Stage("fine-tuning", "medium", "by its launcher")),
        (RunNames("train-eval", "gpu", None), Stage("evaluation", "medium", "by its name")),
        (RunNames("constraints", "trains", None), None),
    ],
)
def test_a_stage_says_by_what_it_is_known(names: RunNames, expected: Stage | None) -> None:
    """A label is a word given for the purpose, a name is not; torchrun starts every kind of training."""
    assert stage_named(names) == expected
