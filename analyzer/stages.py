"""Which stage of the pipeline a run belongs to: what it was called first, what it did second."""

import json
import re
from dataclasses import dataclass

# Names part their words by - and by _ alike, which \b does not.
_START, _END = "(?<![a-z])", "(?![a-z])"

# In order: the first that fits. Words as sites use them in queue, name and label (what-users-ask.md; algorithms 1.6).
_WORDS = (
    ("interactive", re.compile(rf"interactive|notebook|jupyter|{_START}(debug|shell){_END}|devbox", re.IGNORECASE)),
    # A queue called "reserved" serves nobody, nor does what observes or preserves.
    ("serving", re.compile(r"(?<!re)(?<!ob)(?<!de)(?<!con)serv(e|ing)|vllm|triton|inference|endpoint", re.IGNORECASE)),
    ("evaluation", re.compile(rf"{_START}eval|benchmark|lm-harness", re.IGNORECASE)),
    ("data preparation", re.compile(rf"data[-_]?prep|preprocess|tokeni[sz]|etl{_END}", re.IGNORECASE)),
    ("alignment", re.compile(rf"rlhf|{_START}rl[-_]|{_START}[dp]po{_END}|grpo|align", re.IGNORECASE)),
    ("fine-tuning", re.compile(rf"sft|fine[-_]?tun|{_START}q?lora", re.IGNORECASE)),
    ("pretraining", re.compile(r"pre[-_]?train", re.IGNORECASE)),
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
