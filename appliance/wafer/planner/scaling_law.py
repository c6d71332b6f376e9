"""How large, how long and with which hyper-parameters: the advice of the Cerebras-GPT paper.

Source: Dey et al., Cerebras-GPT: Open Compute-Optimal Language Models Trained on the Cerebras
Wafer-Scale Cluster, 2023, arXiv 2304.03208: equation of the Pile test loss, 20 tokens per
parameter, and the maximal update parametrisation (muP) settings of its appendix (base width 256,
learning rate 6e-3, initial deviation 0.08, embedding multiplier 10; from memory, unverified).
"""

import math
from dataclasses import dataclass

TOKENS_PER_PARAMETER = 20.0
_FLOPS_SCALE = 5.984e22
_EXPONENT = -0.0737
_IRREDUCIBLE = 0.5066
_BASE_WIDTH = 256
_BASE_LEARNING_RATE = 6e-3
_BASE_DEVIATION = 0.08
_EMBEDDING_MULTIPLIER = 10.0


def compute_optimal_loss(flops: float) -> float:
    """Return the Pile test loss (nats per token) of a compute-optimal GPT trained with `flops`."""
    if flops <= 0:
        raise ValueError(f"flops is {flops}, it must be above 0")
    return math.pow(flops / _FLOPS_SCALE, _EXPONENT) + _IRREDUCIBLE


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


def mup_advice(hidden: int, heads: int) -> MupAdvice:
    """Return the muP settings for a transformer of some width."""
    multiplier = hidden / _BASE_WIDTH
    return MupAdvice(
        width_multiplier=multiplier,
        matrix_learning_rate=_BASE_LEARNING_RATE / multiplier,
        embedding_learning_rate=_BASE_LEARNING_RATE,
        matrix_deviation=_BASE_DEVIATION / math.sqrt(multiplier),
        embedding_deviation=_BASE_DEVIATION,
        embedding_multiplier=_EMBEDDING_MULTIPLIER,
        output_multiplier=1.0 / multiplier,
        attention_scale=heads / hidden,
    )
