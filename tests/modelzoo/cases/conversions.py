"""From the Hugging Face format to the Model Zoo's, some steps, and back.

The last loss of such a case is that of `transformers` with the trained weights. A decoder's is also
the evaluation's, on the same batch.
"""

from __future__ import annotations

from typing import Any

from tests.modelzoo.cases.case import LENGTH, TOKENS, VOCAB, WIDTH, Case, ones
from tests.modelzoo.cases.encoders import MASKED, SENTENCE, TRANSLATION

SPECIAL = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
LLAMA = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": LENGTH,
    **SPECIAL,
}


def converted(
    model: str,
    of: str,
    config: dict[str, Any],
    *,
    fields: dict[str, Any],
    inputs: tuple[str, ...] = ("input_ids",),
    mask: str = "attention_mask",
    **options: Any,
) -> Case:
    """Return a case of a checkpoint that goes there and back."""
    conversion = {
        "model": model,
        "type": model,
        "class": of,
        "config": config,
        "inputs": {name: name for name in inputs} | options.pop("renamed", {}),
        "mask": mask,
    }
    return Case(
        name=f"convert/{model}",
        model={"name": model},
        fields=fields,
        eval_steps=1,
        convert=conversion,
        **options,
    )


CONVERSIONS = [
    converted(
        "gpt2",
        "GPT2LMHeadModel",
        {
            "vocab_size": VOCAB,
            "n_embd": WIDTH,
            "n_head": 4,
            "n_layer": 2,
            "n_positions": LENGTH,
            "resid_pdrop": 0.0,
            "embd_pdrop": 0.0,
            "attn_pdrop": 0.0,
            **SPECIAL,
        },
        fields=TOKENS,
    ),
    converted("llama", "LlamaForCausalLM", LLAMA | {"num_key_value_heads": 2}, fields=TOKENS),
    converted(
        "mistral",
        "MistralForCausalLM",
        LLAMA | {"num_key_value_heads": 2, "sliding_window": None},
        fields=TOKENS,
    ),
    converted(
        "falcon",
        "FalconForCausalLM",
        {
            "vocab_size": VOCAB,
            "hidden_size": WIDTH,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": LENGTH,
            "hidden_dropout": 0.0,
            "attention_dropout": 0.0,
            "multi_query": True,
            "parallel_attn": True,
            "bias": False,
            "alibi": False,
            "new_decoder_architecture": False,
            **SPECIAL,
        },
        fields=TOKENS,
    ),
    converted(
        "bert",
        "BertForPreTraining",
        {
            "vocab_size": VOCAB,
            "hidden_size": WIDTH,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 128,
            "max_position_embeddings": LENGTH,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        },
        fields=SENTENCE
        | MASKED
        | {"attention_mask": ones(), "next_sentence_label": {"shape": [], "high": 2}},
        inputs=("input_ids", "attention_mask", "token_type_ids"),
        mask="masked_lm_mask",
    ),
    converted(
        "t5",
        "T5ForConditionalGeneration",
        {
            "vocab_size": VOCAB,
            "d_model": WIDTH,
            "d_kv": 16,
            "d_ff": 128,
            "num_layers": 2,
            "num_heads": 4,
            "dropout_rate": 0.0,
            "relative_attention_num_buckets": 8,
            "feed_forward_proj": "relu",
            "decoder_start_token_id": 0,
            "pad_token_id": 0,
            "eos_token_id": 1,
        },
        fields=TRANSLATION,
        inputs=(
            "input_ids",
            "attention_mask",
            "decoder_input_ids",
            "decoder_attention_mask",
        ),
        mask="decoder_attention_mask",
    ),
]
