"""The training step of a described transformer, as the operations and traffic that are priced.

A model is one stack of blocks, or two: an encoder-decoder's decoder follows its encoder, and each
of its blocks attends to its own tokens and then to the encoder's output.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from appliance.wafer.planner.transformer import Transformer
from appliance.wafer.timing.operations import Kind, LayerTraffic, Operation, OperationTable
from appliance.wafer.timing.step_program import StepProgram

_NORM_WORK = 8.0
"""Instructions per element of a normalisation and its affine part, after the statistics."""
_ACTIVATION_WORK = 12.0
"""Instructions per element of GELU or SiLU as a polynomial."""
_SOFTMAX_WORK = 10.0
"""Instructions per score: scale, mask, subtract, exponential (a polynomial of 5), divide."""
_HALF = 2.0
"""Bytes of an activation."""


def transformer_program(model: Transformer) -> StepProgram:
    """Return the training step of a model, for one sample."""
    return _Builder(model).build()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attention:
    """One attention of a block.

    Attributes:
        prefix: Of the operations' names.
        queries: Tokens of a sample that ask.
        keys: Tokens of a sample that are asked.
        is_causal: Whether a token meets only those up to itself.
    """

    prefix: str
    queries: int
    keys: int
    is_causal: bool

    @property
    def is_cross(self) -> bool:
        """Whether keys and values come from another stack."""
        return bool(self.prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stack:
    """Blocks that are alike.

    Attributes:
        module: What their names begin with.
        layers: How many.
        tokens: Of a sample, that pass through them.
        source_tokens: Of the stack whose output they attend to; 0 if to none.
        is_causal: Of their attention to themselves.
    """

    module: str
    layers: int
    tokens: int
    source_tokens: int
    block_weights: int
    is_causal: bool

    @property
    def attentions(self) -> tuple[_Attention, ...]:
        """The attentions of a block, in order."""
        tokens = self.tokens
        own = _Attention(prefix="", queries=tokens, keys=tokens, is_causal=self.is_causal)
        if not self.source_tokens:
            return (own,)
        cross = _Attention(
            prefix="cross_", queries=tokens, keys=self.source_tokens, is_causal=False
        )
        return (own, cross)

    def working_bytes(self, model: Transformer) -> float:
        """Return the bytes per sample alive at the widest point: backward of the feed-forward part.

        Its input, the normalised input, the gradients of both and of the output (four of the
        residual's width), and of the hidden layer: pre-activation, activation and gradient (the
        gradient of the pre-activation replaces it in place), one more pre-activation if gated.
        The output that a decoder attends to stays beside it, with its gradient.
        """
        features = 4 * model.hidden + (4 if model.is_gated else 3) * model.ffn
        if model.is_evaluation:  # no gradients
            features -= model.hidden + model.ffn
        return _HALF * (features * self.tokens + 2 * model.hidden * self.source_tokens)

    def boundary_bytes(self, model: Transformer) -> float:
        """Return the bytes per sample of one block's output that a backward pass will need."""
        if model.is_evaluation:
            return 0.0
        return _HALF * model.hidden * self.tokens


def _stacks(model: Transformer) -> tuple[_Stack, ...]:
    first = _Stack(
        module="encoder" if model.decoder_layers else "blocks",
        layers=model.layers,
        tokens=model.sequence,
        source_tokens=0,
        block_weights=model.block_weights,
        is_causal=model.is_causal and not model.decoder_layers,
    )
    if not model.decoder_layers:
        return (first,)
    decoder = _Stack(
        module="decoder",
        layers=model.decoder_layers,
        tokens=model.target_tokens,
        source_tokens=model.sequence,
        block_weights=model.decoder_block_weights,
        is_causal=True,
    )
    return (first, decoder)


class _Builder:
    """Collects the operations and layer steps of one model, in stream order."""

    def __init__(self, model: Transformer) -> None:
        self._model = model
        self._stacks = _stacks(model)
        self._operations: list[Operation] = []
        self._layers: list[LayerTraffic] = []

    def build(self) -> StepProgram:
        model, stacks = self._model, self._stacks
        self._embedding(is_backward=False)
        for stack in stacks:
            for index in range(stack.layers):
                self._block_forward(stack, index)
        self._head()
        if not model.is_evaluation:
            for stack in reversed(stacks):
                for index in reversed(range(stack.layers)):
                    self._block_backward(stack, index)
        if model.is_all_trained:
            self._embedding(is_backward=True)
        widest = max(stacks, key=lambda stack: stack.working_bytes(model))
        working = widest.working_bytes(model)
        return StepProgram(
            name=model.name,
            table=OperationTable.from_operations(self._operations),
            layers=tuple(self._layers),
            num_parameters=float(model.num_parameters),
            working_bytes_per_sample=working,
            largest=("feed-forward activations", _HALF * model.ffn * widest.tokens),
            boundary_bytes_per_sample=sum(
                stack.boundary_bytes(model) * stack.layers for stack in stacks
            ),
            tokens_per_sample=model.sequence + model.target_tokens,
            is_prepared_singly=model.is_prepared_singly,
            waits_for_norm=model.waits_for_norm,
            stage_bytes_per_sample=working * len(self._layers),
            waiting=tuple(self._waiting()),
            num_trained=None if model.is_all_trained else self._adapters(),
        )

    def _adapters(self) -> float:
        """Return the elements of all adapters; 0 without such."""
        return sum(self._block_adapters(stack) * stack.layers for stack in self._stacks)

    def _block_adapters(self, stack: _Stack) -> float:
        rank = self._model.lora_rank
        return float(sum(rank * (inner + outer) for _, _, inner, outer in self._products(stack)))

    def _waiting(self) -> Iterator[tuple[float, float]]:
        """Yield each block's bytes per sample, and for how many layer steps they wait."""
        working = {stack.module: stack.working_bytes(self._model) for stack in self._stacks}
        forward = {
            layer.module: index for index, layer in enumerate(self._layers) if not layer.is_backward
        }
        for index, layer in enumerate(self._layers):
            stack = layer.module.partition(".")[0]
            if layer.is_backward and stack in working:
                yield working[stack], index - forward[layer.module]

    def _step(
        self,
        module: str,
        weights: float,
        *,
        is_backward: bool,
        tokens: int,
        density: float = 1.0,
        adapters: float = 0.0,
    ) -> None:
        is_frozen = not self._model.is_all_trained
        trained = adapters if is_frozen else weights
        suffix = "bwd" if is_backward else "fwd"
        self._layers.append(
            LayerTraffic(
                name=f"{module}.{suffix}",
                module=module,
                is_backward=is_backward,
                weight_elements=weights + adapters,
                gradient_elements=trained if is_backward else 0.0,
                activation_bytes=_HALF * self._model.hidden * tokens,
                density=density,
                is_frozen=is_frozen,
            )
        )

    def _add(
        self,
        name: str,
        kind: Kind,
        inner: int,
        outer: int,
        *,
        tokens: float,
        bits: int = 16,
        work: float = 1.0,
        density: float = 1.0,
    ) -> None:
        self._operations.append(
            Operation(
                name=name,
                kind=kind,
                layer_step=len(self._layers) - 1,
                tokens=tokens,
                inner=inner,
                outer=outer,
                bits=bits,
                work=work,
                density=density,
            )
        )

    def _attend(self, name: str, kind: Kind, attention: _Attention, *, repeat: int = 1) -> None:
        width = self._model.attention_width
        self._operations.append(
            Operation(
                name=f"{attention.prefix}{name}",
                kind=kind,
                layer_step=len(self._layers) - 1,
                tokens=float(attention.queries),
                inner=width,
                outer=width,
                sequence=attention.keys,
                queries=attention.queries,
                num_heads=self._model.heads,
                is_causal=attention.is_causal,
                repeat=repeat,
            )
        )

    def _products(self, stack: _Stack) -> tuple[tuple[str, float, int, int], ...]:
        """Return the weight products of a block: name, tokens per sample, features in and out."""
        model = self._model
        tokens, width, kv = float(stack.tokens), model.attention_width, 2 * model.kv_width
        products = []
        if model.is_conditioned:
            products.append(("modulation", 1.0, model.hidden, 6 * model.hidden))
        for attention in stack.attentions:
            prefix = attention.prefix
            if attention.is_cross:
                products.append((f"{prefix}query", tokens, model.hidden, width))
                products.append((f"{prefix}kv", float(attention.keys), model.hidden, kv))
            else:
                products.append(("qkv", tokens, model.hidden, width + kv))
            products.append((f"{prefix}projection", tokens, width, model.hidden))
        products.append(("ffn_in", tokens, model.hidden, model.ffn * (2 if model.is_gated else 1)))
        products.append(("ffn_out", tokens, model.ffn, model.hidden))
        return tuple(products)

    def _elementwise(self, stack: _Stack, passes: int) -> None:
        """Add what surrounds the products; the backward pass does about twice the arithmetic."""
        model = self._model
        hidden, tokens = model.hidden, float(stack.tokens)
        modulation = 3.0 if model.is_conditioned else 0.0
        for number in range(1, len(stack.attentions) + 2):
            work = (_NORM_WORK + modulation) * passes
            self._add(
                f"norm_{number}",
                Kind.NORMALISATION,
                hidden,
                hidden,
                tokens=tokens,
                bits=32,
                work=work,
            )
        for attention in stack.attentions:
            scores = model.heads * attention.keys
            part = (1 + 1 / attention.keys) / 2 if attention.is_causal else 1.0
            name, work = f"{attention.prefix}softmax", _SOFTMAX_WORK * passes * part
            self._add(name, Kind.ELEMENTWISE, scores, scores, tokens=tokens, bits=32, work=work)
        work = _ACTIVATION_WORK * passes
        self._add("activation", Kind.ELEMENTWISE, model.ffn, model.ffn, tokens=tokens, work=work)
        self._add("residual", Kind.ELEMENTWISE, hidden, hidden, tokens=tokens, work=2.0)

    def _block_step(self, stack: _Stack, index: int, *, is_backward: bool) -> None:
        self._step(
            f"{stack.module}.{index}",
            float(stack.block_weights),
            is_backward=is_backward,
            tokens=stack.tokens + stack.source_tokens,
            density=self._model.density,
            adapters=self._block_adapters(stack),
        )

    def _block_forward(self, stack: _Stack, index: int) -> None:
        density = self._model.density
        self._block_step(stack, index, is_backward=False)
        for name, tokens, inner, outer in self._products(stack):
            self._add(name, Kind.MATMUL, inner, outer, tokens=tokens, density=density)
            self._adapter(name, inner, outer, tokens=tokens, is_backward=False)
        for attention in stack.attentions:
            self._attend("scores", Kind.SCORES, attention)
            self._attend("context", Kind.CONTEXT, attention)
        self._elementwise(stack, passes=1)

    def _block_backward(self, stack: _Stack, index: int) -> None:
        """Add the gradients; scores are not kept, so their product is done a second time."""
        self._block_step(stack, index, is_backward=True)
        for name, tokens, inner, outer in reversed(self._products(stack)):
            self._product_backward(name, inner, outer, tokens=tokens, density=self._model.density)
            self._adapter(name, inner, outer, tokens=tokens, is_backward=True)
        for attention in stack.attentions:
            self._attend("scores_grad", Kind.SCORES, attention, repeat=2)
            self._attend("query_grad", Kind.CONTEXT, attention)
            turned = replace(attention, queries=attention.keys, keys=attention.queries)
            self._attend("key_grad", Kind.CONTEXT, turned)
            self._attend("value_grad", Kind.CONTEXT, turned)
        self._elementwise(stack, passes=2)

    def _product_backward(
        self, name: str, inner: int, outer: int, *, tokens: float, density: float = 1.0
    ) -> None:
        self._add(f"{name}_input_grad", Kind.MATMUL, outer, inner, tokens=tokens, density=density)
        if not self._model.is_all_trained:
            return
        self._add(
            f"{name}_weight_grad",
            Kind.WEIGHT_GRADIENT,
            inner,
            outer,
            tokens=tokens,
            density=density,
        )
        self._add(f"{name}_bias_grad", Kind.REDUCTION, outer, outer, tokens=tokens)

    def _adapter(
        self, name: str, inner: int, outer: int, *, tokens: float, is_backward: bool
    ) -> None:
        """Add the two thin products beside a frozen one; what they make is added to its result."""
        rank = self._model.lora_rank
        if not rank:
            return
        for part, read, made in (("down", inner, rank), ("up", rank, outer)):
            if is_backward:
                self._add(f"{name}_{part}_input_grad", Kind.MATMUL, made, read, tokens=tokens)
                kind = Kind.WEIGHT_GRADIENT
                self._add(f"{name}_{part}_weight_grad", kind, read, made, tokens=tokens)
            else:
                self._add(f"{name}_{part}", Kind.MATMUL, read, made, tokens=tokens)

    def _head(self) -> None:
        model = self._model
        if not model.vocab:
            return
        weights = float(model.vocab * model.hidden)
        sample = self._stacks[-1].tokens
        tokens = sample * model.head_fraction
        self._step("head", weights, is_backward=False, tokens=sample)
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
        if model.is_evaluation:
            return
        self._step("head", weights, is_backward=True, tokens=sample)
        self._product_backward("logits", model.hidden, model.vocab, tokens=tokens)

    def _embedding(self, *, is_backward: bool) -> None:
        model = self._model
        count = model.sequence + model.target_tokens
        weights = float(model.embedding_weights)
        self._step("embedding", weights, is_backward=is_backward, tokens=count)
        tokens, features = float(count), model.patch_features
        if not features:
            entries = model.embedding_weights // model.hidden
            self._add("lookup", Kind.LOOKUP, model.hidden, entries, tokens=tokens)
        elif is_backward:
            kind = Kind.WEIGHT_GRADIENT
            self._add("patch_grad", kind, features, model.hidden, tokens=tokens)
        else:
            self._add("patch", Kind.MATMUL, features, model.hidden, tokens=tokens)
