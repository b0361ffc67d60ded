"""The widths of a model, and the parameters that follow from them.

Parameters are counted as public implementations build a decoder-only transformer: two norms a layer and one at the end
(Gemma: four), linears without bias unless said, a router in each layer of experts. The counts of the table are those
that model cards publish (tests/analyzer/sizing/test_shape.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

LinearKind = Literal["attention", "mlp", "expert"]


@dataclass(frozen=True, slots=True)
class Latent:
    """Widths of latent attention (MLA): what is cached is `kv_rank` + `rope_width` values, whatever the heads.

    `query_rank` 0: queries are projected at once. Source: DeepSeek-V2 (2024), section 2.1.
    """

    kv_rank: int
    rope_width: int
    nope_width: int
    value_width: int
    query_rank: int = 0


@dataclass(frozen=True, slots=True)
class Parts:
    """Parameters by what is done with them: weight matrices by kind, what stays wide, and towers for other inputs."""

    attention: int
    mlp: int
    expert: int
    other: int
    tower: int = 0

    @property
    def linears(self) -> int:
        """Parameters in weight matrices of layers."""
        return self.attention + self.mlp + self.expert

    @property
    def total(self) -> int:
        """All parameters."""
        return self.linears + self.other + self.tower


@dataclass(frozen=True, slots=True)
class Shape:
    """The widths of one model. `key_value_heads` are fewer than `heads` with grouped queries (GQA).

    `is_gated`: the MLP has three matrices (SwiGLU) and not two (GELU); `has_dropout`: masks are kept for the backward
    pass, as in the models of 2022. `experts_active` is how many of the `experts` a token meets, beside what all tokens
    meet (`shared_width`); `dense_layers` of a mixture have one MLP of `intermediate` instead, the first of them or
    (`is_interleaved`) in turns. `windowed_layers` look back `window` tokens. Uncached are layers that read the keys and
    values of another, or of images alone; `index_bytes` are what choosing tokens takes beside. `recurrent_layers` keep
    a state of one size (`state_values` each) and no keys, or (`has_state_beside`) both; None: its size is not known.
    `bare_layers` have no MLP.
    """

    layers: int
    hidden: int
    heads: int
    key_value_heads: int
    head_width: int
    intermediate: int
    vocabulary: int
    is_gated: bool = True
    has_dropout: bool = False
    is_tied: bool = False  # the output layer shares the embedding's weights
    has_query_bias: bool = False  # on queries, keys and values alone, as in Qwen2.5
    experts: int = 1
    experts_active: int = 1
    expert_width: int = 0  # 0: `intermediate`
    shared_width: int = 0
    dense_layers: int = 0
    is_interleaved: bool = False
    latent: Latent | None = None
    window: int = 0
    windowed_layers: int = 0
    full_head_width: int = 0  # of layers without a window, where theirs differs; 0: `head_width`
    full_key_value_heads: int = 0
    uncached_full_layers: int = 0
    uncached_windowed_layers: int = 0
    index_bytes: int = 0  # of one token and layer, whatever keys are kept in
    recurrent_layers: int = 0
    recurrent_parameters: int = 0  # of the mixer of one such layer
    state_values: int | None = 0
    has_state_beside: bool = False  # each layer attends as well
    bare_layers: int = 0
    norms: int = 2  # a layer
    has_head_norms: bool = False
    has_expert_bias: bool = False
    has_query_gate: bool = False  # a gate as wide as the queries
    tower_parameters: int | None = 0  # for images or sound; None: it has one of unknown size

    @property
    def query_width(self) -> int:
        """All heads' queries together."""
        return self.heads * self.head_width

    def key_value_width(self, tensor: int = 1) -> int:
        """Keys (or values) of the heads that one of `tensor` GPUs holds: a head is never split, only copied."""
        return -(-self.key_value_heads // tensor) * self.head_width

    @property
    def full_layers(self) -> int:
        """Layers whose attention looks at all tokens."""
        return self.layers - self.windowed_layers - (0 if self.has_state_beside else self.recurrent_layers)

    def full(self) -> "Shape":
        """Return the shape as its layers without a window have it."""
        if not self.full_head_width:
            return self
        heads = self.full_key_value_heads or self.key_value_heads
        return replace(self, head_width=self.full_head_width, key_value_heads=heads, full_head_width=0)

    def cached_values(self, tensor: int = 1) -> int:
        """Values that one layer caches of one token on one of `tensor` GPUs; what is latent every GPU has whole."""
        if self.latent is not None:
            return self.latent.kv_rank + self.latent.rope_width
        return 2 * self.key_value_width(tensor)

    @property
    def expert_layers(self) -> int:
        """Layers with a mixture of experts."""
        return self.layers - self.dense_layers if self.experts > 1 else 0

    @property
    def active_width(self) -> int:
        """The widest that one token meets between the linears of a layer's MLP."""
        mixed = self.experts_active * (self.expert_width or self.intermediate) + self.shared_width
        dense = self.intermediate if self.expert_layers < self.layers else 0
        return max(dense, mixed if self.expert_layers else 0)

    def attention_linears(self) -> tuple[tuple[int, int, int], ...]:
        """Return the weight matrices of one layer's attention: width in, width out, how many."""
        if (latent := self.latent) is not None:
            queries = self.heads * (latent.nope_width + latent.rope_width)
            rank = latent.query_rank
            ahead = ((self.hidden, rank, 1), (rank, queries, 1)) if rank else ((self.hidden, queries, 1),)
            return (
                *ahead,
                (self.hidden, latent.kv_rank + latent.rope_width, 1),
                (latent.kv_rank, self.heads * (latent.nope_width + latent.value_width), 1),
                (self.heads * latent.value_width, self.hidden, 1),
            )
        queries, keys = self.query_width, self.key_value_width()
        return (
            (self.hidden, queries, 2 if self.has_query_gate else 1),
            (self.hidden, keys, 2),
            (queries, self.hidden, 1),
        )

    def mlp_linears(self, width: int, count: int = 1) -> tuple[tuple[int, int, int], ...]:
        """Return the weight matrices of so many MLPs of a width."""
        return (self.hidden, width, count * (2 if self.is_gated else 1)), (width, self.hidden, count)

    def linears(self) -> Iterator[tuple[LinearKind, int, int, int]]:
        """Yield all weight matrices: kind, width in, width out, how many. Adapters and few bits are for these."""
        for shape, layers in ((self, self.windowed_layers), (self.full(), self.full_layers)):
            for wide, out, count in shape.attention_linears():
                yield "attention", wide, out, count * layers
        mixed = self.expert_layers
        mlps: tuple[tuple[LinearKind, int, int], ...] = (
            ("mlp", self.intermediate, self.layers - mixed - self.bare_layers),
            ("mlp", self.shared_width, mixed),
            ("expert", self.expert_width or self.intermediate, mixed * self.experts),
        )
        for kind, width, many in mlps:
            if width and many:
                for wide, out, count in self.mlp_linears(width, many):
                    yield kind, wide, out, count

    def parts(self, pipeline: int = 1) -> Parts:
        """Return the parameters of the largest of the pipeline's stages: the first and the last have one end each."""
        sums: dict[LinearKind, int] = {"attention": 0, "mlp": 0, "expert": 0}
        for kind, wide, out, count in self.linears():
            sums[kind] += wide * out * count
        sums["attention"] += self.recurrent_layers * self.recurrent_parameters
        ends = self.vocabulary * self.hidden * (1 if self.is_tied else 2) + self.hidden
        tower = self.tower_parameters or 0
        if pipeline == 1:
            return Parts(sums["attention"], sums["mlp"], sums["expert"], ends + self._other(self.layers), tower)
        layers = -(-self.layers // pipeline)
        mixed = self._stage_expert_layers(pipeline)
        dense = sum(w * o * c for w, o, c in self.mlp_linears(self.intermediate))
        shared = sum(w * o * c for w, o, c in self.mlp_linears(self.shared_width))
        return Parts(
            -(-sums["attention"] * layers // self.layers),
            (layers - mixed - self.bare_layers * layers // self.layers) * dense + mixed * shared,
            sums["expert"] * mixed // self.expert_layers if self.expert_layers else 0,
            min(ends, self.vocabulary * self.hidden + self.hidden) + self._other(layers),
            tower,
        )

    def copied(self, tensor: int, pipeline: int = 1) -> Parts:
        """Return what one of `tensor` GPUs holds beyond an even share, since it is not split: see key_value_width.

        Heads of keys and values that are fewer than GPUs, what projects to latent ranks, routers, norms. Source: vLLM,
        QKVParallelLinear and ReplicatedLinear.
        """
        attention = 0
        for shape, layers in ((self, self.windowed_layers), (self.full(), self.full_layers)):
            if (latent := shape.latent) is not None:
                whole = self.hidden * (latent.kv_rank + latent.rope_width + latent.query_rank)
                attention += layers * (whole - whole // tensor)
            else:
                attention += (
                    layers * 2 * self.hidden * (shape.key_value_width(tensor) - shape.key_value_width() // tensor)
                )
        ranks = self.latent.query_rank + self.latent.kv_rank if self.latent else 0
        small = self.layers * (self.norms * self.hidden + ranks) + self.expert_layers * self.hidden * self.experts
        staged = -(-self.layers // pipeline)
        return Parts(attention * staged // self.layers, 0, 0, (small - small // tensor) * staged // self.layers)

    def _stage_expert_layers(self, pipeline: int) -> int:
        """Return the layers of experts in the stage that has most of them."""
        layers = -(-self.layers // pipeline)
        return min(layers, -(-self.expert_layers // pipeline) if self.is_interleaved else self.expert_layers)

    def _other(self, layers: int) -> int:
        """Return the parameters of so many layers in norms, biases and routers."""
        heads = 2 * self.head_width if self.has_head_norms else 0
        ranks = self.latent.query_rank + self.latent.kv_rank if self.latent else 0
        biases = self.query_width + 2 * self.key_value_width() if self.has_query_bias else 0
        each = self.norms * self.hidden + heads + ranks + biases
        router = self.hidden * self.experts
        if self.has_expert_bias:
            width = self.expert_width or self.intermediate
            router += self.experts * (1 + (2 if self.is_gated else 1) * width + self.hidden) + self.hidden + self.heads
        mixed = min(layers, self.expert_layers)
        return layers * each + mixed * router

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.parts().total

    @property
    def active_parameters(self) -> int:
        """Parameters that a token meets: of a mixture of experts fewer than it has."""
        parts = self.parts()
        return parts.total - parts.tower - parts.expert + parts.expert * self.experts_active // self.experts

    def adapter_parameters(self, rank: int) -> int:
        """Return the parameters of low-rank adapters of this rank on every linear: rank x (in + out) each.

        Source: Hu et al. 2021, LoRA; on every linear as Dettmers et al. 2023 (QLoRA, section 4) found to be needed.
        """
        return sum(rank * (wide + out) * count for _, wide, out, count in self.linears())
