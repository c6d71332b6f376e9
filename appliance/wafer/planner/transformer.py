"""A transformer described by its dimensions, turned into a step program.

This is what the planner starts from when there is no traced program. The description covers the
families that run on these systems: decoder-only (GPT, LLaMA with gated feed-forward and shared key
heads), encoder-only (BERT, ESM: only some tokens reach the vocabulary head), and image transformers
(ViT, DiT: patches in, a small head, adaptive norms that depend on the sample).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from appliance.core.errors import UserError
from appliance.wafer.timing.operations import Kind, LayerTraffic, Operation, OperationTable
from appliance.wafer.timing.step_program import StepProgram

_NORM_WORK = 8.0
"""Instructions per element of a normalisation and its affine part, after the statistics."""
_ACTIVATION_WORK = 12.0
"""Instructions per element of GELU or SiLU as a polynomial."""
_SOFTMAX_WORK = 10.0
"""Instructions per score: scale, mask, subtract, exponential (a polynomial of 5), divide."""

HEAD_WIDTH = 128
"""Features of an attention head where a user does not say: what most published models use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """Dimensions of a transformer and of its samples.

    Attributes:
        name: For reports.
        layers: Number of blocks.
        hidden: Width of the residual stream.
        heads: Attention heads.
        ffn: Width of the feed-forward part.
        vocab: Entries of the embedding table, and width of the head; 0 for image models.
        sequence: Tokens per sample.
        kv_heads: Heads of keys and values; as many as `heads` if None.
        is_gated: Whether the feed-forward part has two input products (SwiGLU).
        is_tied: Whether the head is the embedding table.
        head_fraction: Part of the tokens that reach the head (masked language models: 0.15).
        patch_features: Width of an image patch; 0 for token models.
        is_conditioned: Adaptive norms (DiT): six modulation vectors per block from the sample.
        is_prepared_singly: See `StepProgram`.
        density: Non-zero fraction of the block weights.
        waits_for_norm: Whether gradients are clipped by their global norm.
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

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "ffn", "sequence"):
            if getattr(self, name) < 1:
                raise UserError(f"Model {self.name!r}: {name} is {getattr(self, name)}, below 1.")
        if self.hidden % self.heads:
            raise UserError(
                f"Model {self.name!r}: hidden size {self.hidden} is no multiple of its "
                f"{self.heads} heads.",
                hint="Change one of the two.",
            )
        if self.heads % (self.kv_heads or self.heads):
            raise UserError(
                f"Model {self.name!r}: {self.heads} heads cannot share {self.kv_heads} key heads."
            )
        if not 0 < self.density <= 1:
            raise UserError(f"Model {self.name!r}: density is {self.density}, not in (0, 1].")

    @property
    def kv_width(self) -> int:
        """Features of the keys."""
        return self.hidden // self.heads * (self.kv_heads or self.heads)

    @property
    def block_weights(self) -> int:
        """Matrix elements of one block."""
        attention = self.hidden * (2 * self.hidden + 2 * self.kv_width)
        feed_forward = self.hidden * self.ffn * (3 if self.is_gated else 2)
        conditioning = 6 * self.hidden**2 if self.is_conditioned else 0
        return attention + feed_forward + conditioning

    @property
    def embedding_weights(self) -> int:
        """Elements of the input embedding: table and positions, or patch projection."""
        return (self.vocab + self.patch_features + self.sequence) * self.hidden

    @property
    def head_weights(self) -> int:
        """Elements of an output head of its own; 0 if it is tied or absent."""
        return 0 if self.is_tied else self.vocab * self.hidden

    @property
    def num_parameters(self) -> int:
        """All elements; norms and biases left out (below one part in a thousand)."""
        return self.layers * self.block_weights + self.embedding_weights + self.head_weights

    def step_program(self) -> StepProgram:
        """Return the training step of this model, for one sample."""
        return _Builder(self).build()


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
) -> Transformer:
    """Return a transformer of which a user has said only what matters; see `Transformer`.

    Heads default to those of `HEAD_WIDTH` features, or of the nearest width that divides; the
    feed-forward part to four times the hidden size.
    """
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
    )
    return replace(described, name=f"transformer {_size_text(described.num_parameters)}")


def _size_text(number: int) -> str:
    for size, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return str(number)


def _usual_heads(hidden: int) -> int:
    wanted = max(1, hidden // HEAD_WIDTH)
    return next(count for count in range(wanted, 0, -1) if hidden % count == 0)


class _Builder:
    """Collects the operations and layer steps of one model, in stream order."""

    def __init__(self, model: Transformer) -> None:
        self._model = model
        self._operations: list[Operation] = []
        self._layers: list[LayerTraffic] = []

    def build(self) -> StepProgram:
        model = self._model
        self._embedding(is_backward=False)
        for index in range(model.layers):
            self._block_forward(index)
        self._head()
        for index in reversed(range(model.layers)):
            self._block_backward(index)
        self._embedding(is_backward=True)
        working = self._working_features() * 2.0 * model.sequence
        boundary = 2.0 * model.hidden * model.sequence * model.layers
        return StepProgram(
            name=model.name,
            table=OperationTable.from_operations(self._operations),
            layers=tuple(self._layers),
            num_parameters=float(model.num_parameters),
            working_bytes_per_sample=working,
            largest=("feed-forward activations", 2.0 * model.ffn * model.sequence),
            boundary_bytes_per_sample=boundary,
            tokens_per_sample=model.sequence,
            is_prepared_singly=model.is_prepared_singly,
            waits_for_norm=model.waits_for_norm,
            stage_bytes_per_sample=working * len(self._layers),
            waiting=tuple((working, steps) for steps in self._waiting_steps()),
        )

    def _waiting_steps(self) -> Iterator[int]:
        """Yield of how many layer steps each block waits for its backward pass."""
        forward = {
            layer.module: index
            for index, layer in enumerate(self._layers)
            if not layer.is_backward and layer.module.startswith("blocks")
        }
        for index, layer in enumerate(self._layers):
            if layer.is_backward and layer.module in forward:
                yield index - forward[layer.module]

    def _working_features(self) -> int:
        """Features per token alive at the widest point: backward of the feed-forward part.

        Its input, the normalised input, the gradients of both and of the output (four of the
        residual's width), and of the hidden layer: pre-activation, activation and gradient (the
        gradient of the pre-activation replaces it in place), one more pre-activation if gated.
        """
        model = self._model
        return 4 * model.hidden + (4 if model.is_gated else 3) * model.ffn

    def _step(
        self, module: str, weights: float, *, is_backward: bool, density: float = 1.0
    ) -> None:
        model = self._model
        suffix = "bwd" if is_backward else "fwd"
        self._layers.append(
            LayerTraffic(
                name=f"{module}.{suffix}",
                module=module,
                is_backward=is_backward,
                weight_elements=weights,
                gradient_elements=weights if is_backward else 0.0,
                activation_bytes=2.0 * model.hidden * model.sequence,
                density=density,
            )
        )

    def _add(
        self,
        name: str,
        kind: Kind,
        inner: int,
        outer: int,
        *,
        tokens: float | None = None,
        bits: int = 16,
        work: float = 1.0,
        density: float = 1.0,
    ) -> None:
        count = float(self._model.sequence) if tokens is None else tokens
        step = len(self._layers) - 1
        self._operations.append(
            Operation(
                name=name,
                kind=kind,
                layer_step=step,
                tokens=count,
                inner=inner,
                outer=outer,
                bits=bits,
                work=work,
                density=density,
            )
        )

    def _attend(self, name: str, kind: Kind, *, repeat: int = 1) -> None:
        model = self._model
        self._operations.append(
            Operation(
                name=name,
                kind=kind,
                layer_step=len(self._layers) - 1,
                tokens=float(model.sequence),
                inner=model.hidden,
                outer=model.hidden,
                sequence=model.sequence,
                num_heads=model.heads,
                is_causal=model.is_causal,
                repeat=repeat,
            )
        )

    def _products(self) -> tuple[tuple[str, float, int, int], ...]:
        """Return the weight products of a block: name, tokens per sample, features in and out."""
        model = self._model
        tokens = float(model.sequence)
        products = [
            ("qkv", tokens, model.hidden, model.hidden + 2 * model.kv_width),
            ("projection", tokens, model.hidden, model.hidden),
            ("ffn_in", tokens, model.hidden, model.ffn * (2 if model.is_gated else 1)),
            ("ffn_out", tokens, model.ffn, model.hidden),
        ]
        if model.is_conditioned:
            products.insert(0, ("modulation", 1.0, model.hidden, 6 * model.hidden))
        return tuple(products)

    def _elementwise(self, passes: int) -> None:
        """Add what surrounds the products; the backward pass does about twice the arithmetic."""
        model = self._model
        hidden, scores = model.hidden, model.heads * model.sequence
        modulation = 3.0 if model.is_conditioned else 0.0
        for name in ("norm_1", "norm_2"):
            work = (_NORM_WORK + modulation) * passes
            self._add(name, Kind.NORMALISATION, hidden, hidden, bits=32, work=work)
        work = _SOFTMAX_WORK * passes
        self._add("softmax", Kind.ELEMENTWISE, scores, scores, bits=32, work=work)
        work = _ACTIVATION_WORK * passes
        self._add("activation", Kind.ELEMENTWISE, model.ffn, model.ffn, work=work)
        self._add("residual", Kind.ELEMENTWISE, hidden, hidden, work=2.0)

    def _block_forward(self, index: int) -> None:
        model = self._model
        weights = float(model.block_weights)
        self._step(f"blocks.{index}", weights, is_backward=False, density=model.density)
        for name, tokens, inner, outer in self._products():
            self._add(name, Kind.MATMUL, inner, outer, tokens=tokens, density=model.density)
        self._attend("scores", Kind.SCORES)
        self._attend("context", Kind.CONTEXT)
        self._elementwise(passes=1)

    def _block_backward(self, index: int) -> None:
        """Add the gradients; scores are not kept, so their product is done a second time."""
        model = self._model
        weights = float(model.block_weights)
        self._step(f"blocks.{index}", weights, is_backward=True, density=model.density)
        for name, tokens, inner, outer in reversed(self._products()):
            self._product_backward(name, inner, outer, tokens=tokens, density=model.density)
        self._attend("scores_grad", Kind.SCORES, repeat=2)
        for name in ("query_grad", "key_grad", "value_grad"):
            self._attend(name, Kind.CONTEXT)
        self._elementwise(passes=2)

    def _product_backward(
        self, name: str, inner: int, outer: int, *, tokens: float, density: float = 1.0
    ) -> None:
        self._add(f"{name}_input_grad", Kind.MATMUL, outer, inner, tokens=tokens, density=density)
        self._add(
            f"{name}_weight_grad",
            Kind.WEIGHT_GRADIENT,
            inner,
            outer,
            tokens=tokens,
            density=density,
        )
        self._add(f"{name}_bias_grad", Kind.REDUCTION, outer, outer, tokens=tokens)

    def _head(self) -> None:
        model = self._model
        if not model.vocab:
            return
        weights = float(model.vocab * model.hidden)
        tokens = model.sequence * model.head_fraction
        self._step("head", weights, is_backward=False)
        self._add("logits", Kind.MATMUL, model.hidden, model.vocab, tokens=tokens)
        self._add(
            "loss",
            Kind.ELEMENTWISE,
            model.vocab,
            model.vocab,
            tokens=tokens,
            bits=32,
            work=2 * _SOFTMAX_WORK,
        )
        self._step("head", weights, is_backward=True)
        self._product_backward("logits", model.hidden, model.vocab, tokens=tokens)

    def _embedding(self, *, is_backward: bool) -> None:
        model = self._model
        self._step("embedding", float(model.embedding_weights), is_backward=is_backward)
        if not model.patch_features:
            self._add("lookup", Kind.LOOKUP, model.hidden, model.vocab + model.sequence)
        elif is_backward:
            self._add("patch_grad", Kind.WEIGHT_GRADIENT, model.patch_features, model.hidden)
        else:
            self._add("patch", Kind.MATMUL, model.patch_features, model.hidden)
