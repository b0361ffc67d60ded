"""What a decoder-only transformer is made of, and how many parameters that comes to.

Counted as public implementations build it (Llama, Mistral, Mixtral, Qwen2.5): two norms a layer and one at the end,
linears without bias unless said, a router in each layer of a mixture of experts. The counts of the table are those that
model cards publish (tests/analyzer/sizing/test_shape.py).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """The widths of one model. `key_value_heads` are fewer than `heads` with grouped queries (GQA).

    `is_gated`: the MLP has three matrices (SwiGLU) and not two (GELU); `has_dropout`: masks are kept for the backward
    pass, as in the models of 2022. `experts_active` is how many of the `experts` a token meets.
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

    @property
    def query_width(self) -> int:
        """All heads' queries together."""
        return self.heads * self.head_width

    def key_value_width(self, tensor: int = 1) -> int:
        """Keys (or values) of the heads that one of `tensor` GPUs holds: a head is never split, only copied."""
        return -(-self.key_value_heads // tensor) * self.head_width

    def linears(self) -> tuple[tuple[int, int, int], ...]:
        """Return the weight matrices of one layer: width in, width out, how many. Adapters and 4 bits are for these."""
        queries, keys = self.query_width, self.key_value_width()
        return (
            (self.hidden, queries, 1),
            (self.hidden, keys, 2),
            (queries, self.hidden, 1),
            (self.hidden, self.intermediate, self.experts * (2 if self.is_gated else 1)),
            (self.intermediate, self.hidden, self.experts),
        )

    @property
    def layer_linear_parameters(self) -> int:
        """Parameters in the weight matrices of one layer."""
        return sum(wide * out * count for wide, out, count in self.linears())

    @property
    def layer_other_parameters(self) -> int:
        """Parameters of one layer in norms, biases and the router."""
        router = self.hidden * self.experts if self.experts > 1 else 0
        biases = self.query_width + 2 * self.key_value_width() if self.has_query_bias else 0
        return 2 * self.hidden + router + biases

    @property
    def layer_parameters(self) -> int:
        """All parameters of one layer."""
        return self.layer_linear_parameters + self.layer_other_parameters

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the embedding; of the output layer as many again, unless they are tied."""
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """All parameters."""
        ends = self.embedding_parameters * (1 if self.is_tied else 2) + self.hidden
        return self.layers * self.layer_parameters + ends

    @property
    def active_parameters(self) -> int:
        """Parameters that a token meets: of a mixture of experts fewer than it has."""
        expert = self.hidden * self.intermediate * (3 if self.is_gated else 2)
        return self.parameters - self.layers * (self.experts - self.experts_active) * expert

    def adapter_parameters(self, rank: int) -> int:
        """Return the parameters of low-rank adapters of this rank on every linear: rank x (in + out) each.

        Source: Hu et al. 2021, LoRA; on every linear as Dettmers et al. 2023 (QLoRA, section 4) found to be needed.
        """
        return self.layers * sum(rank * (wide + out) * count for wide, out, count in self.linears())
