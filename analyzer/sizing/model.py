"""A model by its name: of the table, by a name that people type, or by the file or folder that describes it.

A name says more than the shape: "-AWQ", "-GPTQ-Int4", "-FP8", "-Q4_K_M.gguf" are what its weights are held in.
"""

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from analyzer.errors import ConfigError
from analyzer.settings.toml_entry import TomlEntry, read_toml
from analyzer.sizing.checkpoint import checkpoint_precision
from analyzer.sizing.model_config import config_of, read_config
from analyzer.sizing.shape import Shape
from analyzer.sizing.work import MLX_BITS, PRECISIONS, Precision, gguf_precision, mlx, precision_named

_TABLE = Path(__file__).with_name("models.toml")
# What a release of the same shape adds to a name: "Llama-2-7b-chat-hf", "Mixtral-8x7B-Instruct-v0.1", "-2507".
_RELEASE = re.compile(
    r"-(hf|chat|instruct|base|it|pt|think|thinking|reasoning|preview|latest|text|vision|original|dynamic|quantized|kv"
    r"|v[01]\.\d|\d{4}|qat|unsloth|mlx|static|hybrid|ptpc|marlin|block|model|turbo|sft|dpo|128k|4k)$"
)
# How hubs spell what a checkpoint is held in, the longest first. GGUF's names of kinds are read by `gguf_precision`.
_SPELLED = (
    (r"bnb-4bit|bnb|4bit-bnb|nf4|qlora", "nf4"),
    (r"gptq-int8|gptq-8bit|int8|w8a8|w8a16|8bit|int8-w8a16|autoround-int8|awq-8bit|awq-int8", "int8"),
    (
        r"awq-int4|awq-4bit|awq|gptq-int4|gptq-4bit|gptq|int4|w4a16|4bit|autoround|int4-autoround|auto-round|int4-mixed",
        "int4",
    ),
    (r"fp8-dynamic|fp8", "fp8"),
    (r"mxfp4", "mxfp4"),
    (r"(?:nv)?fp4-v\d|nvfp4|fp4", "nvfp4"),
    (r"bf16|bfloat16", "bf16"),
    (r"fp16|f16|float16", "fp16"),
    (r"fp32|f32", "fp32"),
)
_SUFFIXES = tuple((re.compile(rf"[-.](?:{spelled})$"), name) for spelled, name in _SPELLED)
_GGUF = re.compile(r"[-.](ud-)?((?:i?q\d)[a-z0-9-]*|gguf)$")
_MLX = re.compile(rf"[-.]([{''.join(map(str, MLX_BITS))}])bit(?:-dwq)?$")
_NAME_MOST = 200  # letters; a path on a server may be long, and a name is not


@dataclass(frozen=True, slots=True)
class Model:
    """A model: its name, its parameters, and its shape where it is known. `source` says whose figures these are.

    `precision` is what its published weights are held in, None where nobody says (16 bits); `is_named`: the name says
    so. `checkpoints` are published ones that spare more than usual, by precision. `stored_bytes` is what the files of
    its own precision have, `assumed` what no file said; `draft` is the model that guesses its tokens ahead.
    """

    name: str
    parameters: int
    shape: Shape | None
    source: str
    also: tuple[str, ...] = ()
    precision: Precision | None = None
    cache: Precision | None = None
    checkpoints: tuple[Precision, ...] = ()
    is_named: bool = False
    stored_bytes: int | None = None
    assumed: tuple[str, ...] = ()
    draft: "Model | None" = None

    @property
    def names(self) -> frozenset[str]:
        """The names that it goes by, as `plain_name` gives them."""
        return frozenset((self.name, *self.also))

    def held_in(self, name: str) -> Precision:
        """Return a precision as this model's published checkpoint has it, else as it usually is.

        Raises:
            ConfigError: there is none of that name.
        """
        own = (*self.checkpoints, *((self.precision,) if self.precision else ()))
        return next((one for one in own if one.name == name), None) or precision_named(name)


def plain_name(name: str) -> str:
    """Return a name without owner, case, release and precision: "meta-llama/Llama-2-7b-chat-hf" is "llama-2-7b"."""
    return split_name(name)[0]


def split_name(name: str) -> tuple[str, Precision | None]:
    """Return a name without what is no shape, and the precision that it says: "Qwen2.5-72B-Instruct-AWQ" is int4."""
    short = name.strip()[-_NAME_MOST:].rstrip("/").rsplit("/", 1)[-1].lower()
    short = re.sub(r"[\s_:@]+", "-", short).removesuffix(".gguf").removeprefix("meta-llama-")
    short = f"llama-{short}" if name.lower().rsplit("/", 1)[-1].startswith("meta-llama-") else short
    said: Precision | None = None
    for _ in range(_NAME_MOST):
        if _key(short) in _by_key():  # a release may be a model of its own: Kimi-K2-Thinking is held in other bits
            break
        if "mlx" in name.lower() and (found := _MLX.search(short)) is not None:
            said = said or mlx(int(found[1]))
            shorter = short[: found.start()]
        elif (found := _GGUF.search(short)) is not None:
            said = said or gguf_precision(found[2])
            shorter = short[: found.start()]
        elif (match := next(((m, held) for form, held in _SUFFIXES if (m := form.search(short))), None)) is not None:
            said = said or PRECISIONS[match[1]]
            shorter = short[: match[0].start()]
        else:
            shorter = _RELEASE.sub("", short)
        if shorter == short or not shorter:
            break
        short = shorter
    return short, said


def _key(name: str) -> str:
    """Return a name without what people leave out or add between its parts: "llama4-scout", "gemma3:27b"."""
    return re.sub(r"[-\s]", "", name)


@cache
def known_models() -> tuple[Model, ...]:
    """Return the table, as it is shipped."""
    known = ("name", "also", "source", "config", "checkpoints")
    return tuple(_model(entry) for entry in read_toml(_TABLE, ("model",)).entries("model", known))


@cache
def _by_key() -> dict[str, Model]:
    return {_key(name): model for model in known_models() for name in model.names}


def _model(entry: TomlEntry) -> Model:
    found = config_of(entry.where, _keys(entry, "config"))
    published = _keys(entry, "checkpoints")
    return Model(
        entry.text("name"),
        found.shape.parameters,
        found.shape,
        entry.text("source"),
        entry.text_list("also"),
        precision=found.precision,
        cache=found.cache,
        checkpoints=tuple(checkpoint_precision(entry.where, one, found.shape.layers) for one in published.values()),
        assumed=found.assumed,
    )


def _keys(entry: TomlEntry, key: str) -> dict[str, dict[str, object]]:
    value = entry.value(key) if entry.has(key) else None
    return value if isinstance(value, dict) else {}


def model_at(path: Path) -> Model:
    """Return the model that a config.json, or the folder that has one, describes.

    Raises:
        ConfigError: it cannot be read, or describes no decoder of text.
    """
    found, stored = read_config(path)
    folder = path if path.is_dir() else path.parent
    name = folder.resolve().name or str(path)
    return Model(
        name,
        found.shape.parameters,
        found.shape,
        str(folder),
        precision=found.precision,
        cache=found.cache,
        is_named=found.precision is not None and found.precision.quantises,
        stored_bytes=stored,
        assumed=found.assumed,
    )


def find_model(name: str) -> Model | None:
    """Return the model of the table that goes by this name, or None."""
    plain, said = split_name(name)
    found = _by_key().get(_key(plain))
    if found is None or said is None:
        return found
    return replace(found, precision=found.held_in(said.name) if said in PRECISIONS.values() else said, is_named=True)


def model_named(name: str) -> Model:
    """Return the model of the table that goes by this name.

    Raises:
        ConfigError: there is none; the message names the nearest, and the way without the table.
    """
    found = find_model(name)
    if found is None:
        names = [each for model in known_models() for each in sorted(model.names)]
        near = get_close_matches(plain_name(name), names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(model.name for model in known_models())};"
        raise ConfigError(
            f"there is no model {name!r} in the table; {hint} any other is given by its config.json, or with "
            "--parameters, --layers, --hidden"
        )
    return found
