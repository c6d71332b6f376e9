"""A transformer described by its dimensions.

This is what the planner starts from when there is no traced program. The description covers the
families that run on these systems: decoder-only (GPT, LLaMA with gated feed-forward and shared key
heads), encoder-only (BERT, ESM: only some tokens reach the vocabulary head), encoder-decoder (T5:
each block of the decoder also attends to the encoder's output), and image transformers (ViT, DiT:
patches in, a small head, adaptive norms that depend on the sample). What a step of it consists of
is `transformer_program`'s business.
"""

import math
from dataclasses import dataclass, replace

from appliance.core.errors import UserError
from appliance.core.quantities import count

HEAD_WIDTH = 128
"""Features of an attention head where a user does not say: what most published models use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """Dimensions of a transformer and of its samples.

    Attributes:
        name: For reports.
        layers: Number of blocks; of the encoder where there is a decoder too.
        hidden: Width of the residual stream.
        heads: Attention heads.
        ffn: Width of the feed-forward part.
        vocab: Entries of the embedding table, and width of the head; 0 for image models.
        sequence: Tokens per sample; of its source where there is a decoder too.
        kv_heads: Heads of keys and values; as many as `heads` if None.
        is_gated: Whether the feed-forward part has two input products (SwiGLU).
        is_tied: Whether the head is the embedding table.
        head_fraction: Part of the tokens that reach the head (masked language models: 0.15).
        patch_features: Width of an image patch; 0 for token models.
        is_conditioned: Adaptive norms (DiT): six modulation vectors per block from the sample.
        is_prepared_singly: See `StepProgram`.
        density: Non-zero fraction of the block weights.
        waits_for_norm: Whether gradients are clipped by their global norm.
        is_causal: Whether a token attends only to those before it (decoders); no encoder does.
        head_width: Features of one attention head; the hidden size over the heads if None.
        decoder_layers: Blocks of the decoder of an encoder-decoder; 0 for other models.
        decoder_sequence: Tokens of a sample's target; as many as of its source if None.
        lora_rank: Rank of the adapters beside each product of a block, which alone are trained
            (LoRA); 0 where all weights are.
        is_evaluation: Whether nothing is trained: the forward pass alone.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    ffn: int
    vocab: int
    sequence: int
    kv_heads: int | None = None
    is_gated: bool = False
    is_tied: bool = True
    head_fraction: float = 1.0
    patch_features: int = 0
    is_conditioned: bool = False
    is_prepared_singly: bool = False
    density: float = 1.0
    waits_for_norm: bool = False
    is_causal: bool = True
    head_width: int | None = None
    decoder_layers: int = 0
    decoder_sequence: int | None = None
    lora_rank: int = 0
    is_evaluation: bool = False

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "ffn", "sequence"):
            if getattr(self, name) < 1:
                raise UserError(f"Model {self.name!r}: {name} is {getattr(self, name)}, below 1.")
        least_of = {"head_width": 1, "decoder_layers": 0, "decoder_sequence": 1, "lora_rank": 0}
        for name, least in least_of.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise UserError(f"Model {self.name!r}: {name} is {value}, below {least}.")
        if self.decoder_sequence is not None and not self.decoder_layers:
            raise UserError(
                f"Model {self.name!r}: {self.decoder_sequence} tokens of a target need a decoder, "
                "decoder_layers is 0.",
                hint="Give decoder_layers, or leave decoder_sequence out.",
            )
        if self.lora_rank and self.is_evaluation:
            raise UserError(
                f"Model {self.name!r}: an evaluation trains no adapters of rank {self.lora_rank}.",
                hint="Leave one of the two out.",
            )
        if self.head_width is None and self.hidden % self.heads:
            raise UserError(
                f"Model {self.name!r}: hidden size {self.hidden} is no multiple of its "
                f"{self.heads} heads.",
                hint="Change one of the two, or give head_width, the features of one head.",
            )
        if self.heads % (self.kv_heads or self.heads):
            raise UserError(
                f"Model {self.name!r}: {self.heads} heads cannot share {self.kv_heads} key heads."
            )
        if not 0 < self.density <= 1:
            raise UserError(f"Model {self.name!r}: density is {self.density}, not in (0, 1].")

    @property
    def attention_width(self) -> int:
        """Features of the queries, all heads together."""
        return (self.head_width or self.hidden // self.heads) * self.heads

    @property
    def kv_width(self) -> int:
        """Features of the keys."""
        return self.attention_width // self.heads * (self.kv_heads or self.heads)

    @property
    def target_tokens(self) -> int:
        """Tokens per sample that the decoder of an encoder-decoder reads; 0 for other models."""
        if not self.decoder_layers:
            return 0
        return self.decoder_sequence or self.sequence

    @property
    def is_all_trained(self) -> bool:
        """Whether every weight is trained: neither adapters alone nor nothing."""
        return not self.lora_rank and not self.is_evaluation

    @property
    def is_decoder(self) -> bool:
        """Whether this is a decoder-only language model, the family of the scaling law."""
        return self.is_causal and not self.decoder_layers and not self.patch_features

    @property
    def attention_weights(self) -> int:
        """Matrix elements of one attention: queries, keys, values and output."""
        return self.hidden * (2 * self.attention_width + 2 * self.kv_width)

    @property
    def block_weights(self) -> int:
        """Matrix elements of one block, of an encoder's where there is a decoder too."""
        feed_forward = self.hidden * self.ffn * (3 if self.is_gated else 2)
        conditioning = 6 * self.hidden**2 if self.is_conditioned else 0
        return self.attention_weights + feed_forward + conditioning

    @property
    def decoder_block_weights(self) -> int:
        """Matrix elements of one block of an encoder-decoder's decoder; it attends twice."""
        return self.block_weights + self.attention_weights

    @property
    def embedding_weights(self) -> int:
        """Elements of the input embedding: table and positions, or patch projection.

        An encoder-decoder has relative positions, whose few numbers are left out.
        """
        positions = 0 if self.decoder_layers else self.sequence
        return (self.vocab + self.patch_features + positions) * self.hidden

    @property
    def head_weights(self) -> int:
        """Elements of an output head of its own; 0 if it is tied or absent."""
        return 0 if self.is_tied else self.vocab * self.hidden

    @property
    def num_parameters(self) -> int:
        """All elements; norms and biases left out (below one part in a thousand)."""
        blocks = self.layers * self.block_weights
        blocks += self.decoder_layers * self.decoder_block_weights
        return blocks + self.embedding_weights + self.head_weights


def described_transformer(
    *,
    layers: int,
    hidden: int,
    heads: int | None = None,
    kv_heads: int | None = None,
    ffn: int | None = None,
    vocab: int = 50257,
    sequence: int = 2048,
    is_gated: bool = False,
    is_tied: bool = True,
    density: float = 1.0,
    sparsity: float | None = None,
    is_causal: bool = True,
    head_width: int | None = None,
    decoder_layers: int = 0,
    decoder_sequence: int | None = None,
    lora_rank: int = 0,
    is_evaluation: bool = False,
) -> Transformer:
    """Return a transformer of which a user has said only what matters; see `Transformer`.

    Heads default to those of `HEAD_WIDTH` features, or of the nearest width that divides; the
    feed-forward part to four times the hidden size. `sparsity` is the part of the block weights
    that is zero, another way to say `density`.

    Raises:
        UserError: A number is out of range, or density and sparsity contradict one another.
    """
    if sparsity is not None:
        density = _density(sparsity, density)
    described = Transformer(
        name="transformer",
        layers=layers,
        hidden=hidden,
        heads=heads or _usual_heads(hidden),
        ffn=ffn or 4 * hidden,
        vocab=vocab,
        sequence=sequence,
        kv_heads=kv_heads,
        is_gated=is_gated,
        is_tied=is_tied,
        density=density,
        is_causal=is_causal,
        head_width=head_width,
        decoder_layers=decoder_layers,
        decoder_sequence=decoder_sequence,
        lora_rank=lora_rank,
        is_evaluation=is_evaluation,
    )
    what = ", evaluation" if is_evaluation else f", LoRA of rank {lora_rank}" if lora_rank else ""
    return replace(described, name=f"{_kind(described)} {count(described.num_parameters)}{what}")


def _density(sparsity: float, density: float) -> float:
    if not 0 <= sparsity < 1:
        raise UserError(
            f"A sparsity of {sparsity} is not in [0, 1).", hint="Say 0.9 for nine zeros in ten."
        )
    if density != 1.0 and not math.isclose(density, 1 - sparsity):
        raise UserError(
            f"A sparsity of {sparsity} is a density of {1 - sparsity:g}, not of {density}.",
            hint="Give one of the two.",
        )
    return 1 - sparsity


def _kind(model: Transformer) -> str:
    if model.decoder_layers:
        return "encoder-decoder"
    return "transformer" if model.is_causal else "encoder"


def _usual_heads(hidden: int) -> int:
    wanted = max(1, hidden // HEAD_WIDTH)
    return next(number for number in range(wanted, 0, -1) if hidden % number == 0)
