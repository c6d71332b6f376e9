"""How large, how long and with which hyper-parameters: the advice of the Cerebras-GPT paper.

Source: Dey et al., Cerebras-GPT: Open Compute-Optimal Language Models Trained on the Cerebras
Wafer-Scale Cluster, 2023, arXiv 2304.03208: equation of the Pile test loss, 20 tokens per
parameter, and the maximal update parametrisation (muP) settings of its appendix (base width 256,
learning rate 6e-3, initial deviation 0.08, embedding multiplier 10; from memory, unverified).
"""

import math
from dataclasses import dataclass

from appliance.wafer.planner.transformer import Transformer

TOKENS_PER_PARAMETER = 20.0
_FLOPS_SCALE = 5.984e22
_EXPONENT = -0.0737
_IRREDUCIBLE = 0.5066
_PER_WEIGHT = 6.0
"""Of a matrix element and token: two forward, four backward."""
_PER_SCORE_FEATURE = 24.0
_PER_EMBEDDING_ELEMENT = 10.0
_BASE_WIDTH = 256
_BASE_LEARNING_RATE = 6e-3
_BASE_DEVIATION = 0.08
_EMBEDDING_MULTIPLIER = 10.0


def compute_optimal_loss(flops: float) -> float:
    """Return the Pile test loss (nats per token) of a compute-optimal GPT trained with `flops`."""
    if flops <= 0:
        raise ValueError(f"flops is {flops}, it must be above 0")
    return math.pow(flops / _FLOPS_SCALE, _EXPONENT) + _IRREDUCIBLE


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPoint:
    """One point of the law's curve.

    Attributes:
        training_flops: Floating-point operations of a training.
        loss: Pile test loss, nats per token.
    """

    training_flops: float
    loss: float


def loss_curve(flops: float) -> tuple[LossPoint, ...]:
    """Return the law from a thousandth of `flops` to a hundred times as much, by rising compute."""
    around = (flops * 10 ** (quarter / 4) for quarter in range(-12, 9))
    return tuple(LossPoint(training_flops=each, loss=compute_optimal_loss(each)) for each in around)


def training_flops_per_token(model: Transformer) -> float:
    """Return the floating-point operations for each token, as the law's authors count them.

    Their evaluation table prints the compute of seven models with two digits. All seven follow from
    6 for each block weight, 24 for each layer, key of the sequence and feature of the queries, and
    10 for each element of the embedding table. The last is 6 for the head, which is the same
    table, and 4 for an input that is counted as a product without a gradient of its own input.
    The 24 is twice what the two products of attention and their gradients do; we know no reason and
    take it because the law was fitted to losses over this count. Whole attention is counted: no
    causal skip, no sparsity.
    """
    blocks = _PER_WEIGHT * model.layers * model.block_weights
    scores = _PER_SCORE_FEATURE * model.layers * model.sequence * model.attention_width
    tables = _PER_EMBEDDING_ELEMENT * model.vocab * model.hidden
    return blocks + scores + tables


def compute_optimal_tokens(num_parameters: float) -> float:
    """Return the tokens for which a model of some size is the best use of its compute."""
    return TOKENS_PER_PARAMETER * num_parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class MupAdvice:
    """Hyper-parameters transferred from a narrow proxy model.

    Attributes:
        width_multiplier: Hidden size over that of the proxy.
        matrix_learning_rate: Peak rate of hidden matrices.
        embedding_learning_rate: Peak rate of embeddings, biases and norms.
        matrix_deviation: Initial deviation of hidden matrices.
        embedding_deviation: Initial deviation of embeddings.
        embedding_multiplier: Factor on the embedding's output.
        output_multiplier: Factor on the logits.
        attention_scale: Factor on the scores: 1 / head width instead of its root.
    """

    width_multiplier: float
    matrix_learning_rate: float
    embedding_learning_rate: float
    matrix_deviation: float
    embedding_deviation: float
    embedding_multiplier: float
    output_multiplier: float
    attention_scale: float


def mup_advice(hidden: int, head_width: int) -> MupAdvice:
    """Return the muP settings for a transformer of some width, with heads of some width."""
    multiplier = hidden / _BASE_WIDTH
    return MupAdvice(
        width_multiplier=multiplier,
        matrix_learning_rate=_BASE_LEARNING_RATE / multiplier,
        embedding_learning_rate=_BASE_LEARNING_RATE,
        matrix_deviation=_BASE_DEVIATION / math.sqrt(multiplier),
        embedding_deviation=_BASE_DEVIATION,
        embedding_multiplier=_EMBEDDING_MULTIPLIER,
        output_multiplier=1.0 / multiplier,
        attention_scale=1.0 / head_width,
    )
