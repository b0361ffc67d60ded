"""Which stage of the pipeline a run belongs to: what it was called first, what it did second."""

import json
import re
from dataclasses import dataclass

# In order: the first that fits. Words as sites use them in queue, name and label (what-users-ask.md; algorithms 1.6).
_WORDS = (
    ("interactive", re.compile(r"interactive|notebook|jupyter|\bdebug\b|devbox|\bshell\b", re.IGNORECASE)),
    ("serving", re.compile(r"serv(e|ing)|vllm|triton|inference|endpoint", re.IGNORECASE)),
    ("evaluation", re.compile(r"\beval|benchmark|lm-harness", re.IGNORECASE)),
    ("data preparation", re.compile(r"data-?prep|preprocess|tokeni[sz]|etl\b", re.IGNORECASE)),
    ("alignment", re.compile(r"rlhf|\brl-|ppo|grpo|\bdpo\b|align", re.IGNORECASE)),
    ("fine-tuning", re.compile(r"sft|fine-?tun|lora|finetune", re.IGNORECASE)),
    ("pretraining", re.compile(r"pre-?train", re.IGNORECASE)),
)
DEFAULT = "training"


@dataclass(frozen=True, slots=True)
class RunNames:
    """What a run calls itself and where it was queued."""

    name: str | None
    queue: str | None
    labels: str | None  # a JSON object of strings
    has_service_samples: bool = False


def stage(names: RunNames) -> str:
    """Return the stage: a `stage` label before a serving replica's own word, then the queue, then the name."""
    labelled = _label(names.labels, "stage")
    if labelled is not None:
        return labelled
    if names.has_service_samples:
        return "serving"
    for text in (names.queue, names.name):
        for word, pattern in _WORDS:
            if text and pattern.search(text):
                return word
    return DEFAULT


def _label(labels: str | None, key: str) -> str | None:
    """Return one label of a run; labels that are no JSON object say nothing."""
    if labels is None:
        return None
    try:
        value = json.loads(labels)
    except ValueError:
        return None
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) and found else None
