"""The stage of a run (training, serving, …): by its names first, by what it did second.

A name that says "train" and no more says that a run is no service; which training it is, what it did may tell.

Only the names decide how a run's time is booked (run_facts.py): what a run did is known only after it was booked, and
the same input must give the same ledger however it arrived and wherever passes were cut.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agent.wire.bounded import json_said
from analyzer.states import Confidence

# Names part their words by - and by _ alike, which \b does not.
_START, _END = "(?<![a-z])", "(?![a-z])"

# In order: the first that fits. Words as sites use them in queue, name and label (what-users-ask.md; algorithms 1.6).
_WORDS = (
    ("interactive", re.compile(rf"interactive|notebook|jupyter|{_START}(debug|shell){_END}|devbox", re.IGNORECASE)),
    # What makes a model ready to be served comes before what serves it: the same stacks' names are in both.
    (
        "deployment",
        re.compile(
            rf"{_START}(export|canary){_END}|{_START}quanti[sz](e|ing|ation){_END}"
            rf"|(engine|trt|tensorrt|trtllm|model)[-_]?(llm[-_]?)?build{_END}"
            rf"|{_START}convert{_END}|(ckpt|checkpoint|model|weights?|onnx)[-_]conver(t|sion){_END}",
            re.IGNORECASE,
        ),
    ),
    # A queue called "reserved" serves nobody, nor does what observes or preserves.
    ("serving", re.compile(r"(?<!re)(?<!ob)(?<!de)(?<!con)serv(e|ing)|vllm|triton|inference|endpoint", re.IGNORECASE)),
    ("evaluation", re.compile(rf"{_START}eval|benchmark|lm-harness", re.IGNORECASE)),
    ("data preparation", re.compile(rf"data[-_]?prep|preprocess|tokeni[sz]|etl{_END}", re.IGNORECASE)),
    ("alignment", re.compile(rf"rlhf|{_START}rl[-_]|{_START}[dp]po{_END}|grpo|align", re.IGNORECASE)),
    ("fine-tuning", re.compile(rf"sft|fine[-_]?tun|{_START}q?lora", re.IGNORECASE)),
    ("pretraining", re.compile(r"pre[-_]?train", re.IGNORECASE)),
    ("deployment", re.compile(rf"{_START}deploy(ment)?{_END}", re.IGNORECASE)),
)
DEFAULT = "training"
# The coarsest word, and part of many names: whatever else a run is called or launched by says more.
_TRAINING = re.compile(rf"{_START}train(ing|er)?{_END}", re.IGNORECASE)
STAGES: tuple[str, ...] = (*dict.fromkeys(word for word, _ in _WORDS), DEFAULT)

# What launched a run, where labels say: stacks that do one thing. torchrun, deepspeed and the like start every kind of
# training and say nothing here.
_LAUNCHERS = (
    ("interactive", re.compile(r"jupyter|code-server|rstudio", re.IGNORECASE)),
    ("serving", re.compile(r"vllm|triton|sglang|kserve|text-generation-inference|trtllm-serve|ollama", re.IGNORECASE)),
    ("evaluation", re.compile(r"lm[-_]eval|lighteval", re.IGNORECASE)),
    ("alignment", re.compile(rf"openrlhf|{_START}verl{_END}|nemo-aligner", re.IGNORECASE)),
    ("fine-tuning", re.compile(rf"axolotl|{_START}trl{_END}|llama-?factory|torchtune", re.IGNORECASE)),
)
# What of this decides how time is booked, as text: a service and a notebook wait by design. Part of the rules' version.
PATTERNS: tuple[str, ...] = tuple(f"{word} {pattern.pattern}" for word, pattern in (*_WORDS, *_LAUNCHERS))
_LAUNCHER_LABELS = ("launcher", "app.kubernetes.io/name", "app.kubernetes.io/component")
_RAY_SERVE_LABEL = "ray_deployment"  # the agent reads it from the title that Ray Serve gives its replicas


@dataclass(frozen=True, slots=True)
class RunNames:
    """What a run calls itself and where it was queued."""

    name: str | None
    queue: str | None
    labels: str | None  # a JSON object of strings
    has_service_samples: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage, how sure it is, and by what: `reason` is words that follow the stage ("by its queue")."""

    word: str
    confidence: Confidence
    reason: str


def stage_named(names: RunNames) -> Stage | None:
    """Return the stage that a run's names give it, or None where they say nothing.

    A `stage` label goes before a serving replica's own word, then the queue, then the name, then what launched it;
    that a queue or a name speaks of training comes last.
    """
    labels = _labels(names.labels)
    labelled = labels.get("stage")
    if labelled:
        # A label that is no word of ours stands as it is: whoever wrote it knows what it means.
        return Stage(_word_of(labelled) or labelled, "high", "by its label")
    if names.has_service_samples:
        return Stage("serving", "high", "by its request counter")
    if labels.get(_RAY_SERVE_LABEL):
        return Stage("serving", "high", "by its Ray Serve name")
    typed = ((names.queue, "by its queue"), (names.name, "by its name"))
    for text, reason in typed:
        word = _word_of(text)
        if word is not None:
            return Stage(word, "medium", reason)
    for word, pattern in _LAUNCHERS:
        if any(pattern.search(labels.get(key, "")) for key in _LAUNCHER_LABELS):
            return Stage(word, "medium", "by its launcher")
    return next((Stage(DEFAULT, "medium", reason) for text, reason in typed if _TRAINING.search(text or "")), None)


def _word_of(text: str | None) -> str | None:
    if not text:
        return None
    if text.lower() in STAGES:
        return text.lower()
    return next((word for word, pattern in _WORDS if pattern.search(text)), None)


def _labels(text: str | None) -> Mapping[str, str]:
    """Return a run's labels; what is no JSON object of strings says nothing."""
    if text is None:
        return {}
    try:
        value = json_said(text)
    except ValueError:
        return {}
    known = value if isinstance(value, dict) else {}
    return {key: said for key, said in known.items() if isinstance(said, str)}


UNKNOWN = Stage(DEFAULT, "low", "neither its names nor its telemetry say more")
# Words within one family are finer and coarser ones of the same, and never a contradiction.
_KINDS_OF_TRAINING = frozenset({DEFAULT, "pretraining", "fine-tuning", "alignment"})
_OWN_WORD = "by its request counter"


def stage(said: Stage | None, seen: Stage | None) -> Stage:
    """Return the stage to report. `said` is by its names, `seen` by what it did; None says nothing."""
    if said is None:
        return seen or UNKNOWN
    if seen is None or not _contradicts(said, seen):
        return seen if seen is not None and _is_finer(seen, said) else said
    looks = seen.reason.removeprefix("by what it did: ")
    return Stage(said.word, "low", f"{said.reason}, against what it did: {looks}, as {seen.word} does")


def header(word: str | None, confidence: str | None, reason: str | None) -> str | None:
    """Return a stage as a report's head has it: "fine-tuning (by its queue)", "pretraining? (by what it did)"."""
    if word is None:
        return None
    shown = f"{word}?" if confidence == "low" or (reason or "").startswith("by what it did") else word
    short = (reason or "").partition(":")[0]
    return f"{shown} ({short})" if short.startswith("by ") else shown


def _is_finer(seen: Stage, said: Stage) -> bool:
    """Say whether telemetry knows which kind of training, where a name says no more than that; a label stands."""
    return said.word == DEFAULT and said.confidence != "high" and seen.word in _KINDS_OF_TRAINING


def _contradicts(said: Stage, seen: Stage) -> bool:
    """Say whether telemetry of some weight shows another kind of work; a word that is not ours contradicts nothing."""
    if seen.confidence == "low" or said.word not in STAGES or said.reason == _OWN_WORD:
        return False
    return said.word != seen.word and not {said.word, seen.word} <= _KINDS_OF_TRAINING
