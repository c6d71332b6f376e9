"""Encoders, encoder-decoders and vision."""

from __future__ import annotations

from typing import Any

from tests.modelzoo.cases.case import LENGTH, VOCAB, WIDTH, Case, ids, lengths, ones

BERT: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "num_heads": 4,
    "num_hidden_layers": 2,
    "filter_size": 128,
    "max_position_embeddings": LENGTH,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    "embedding_dropout_rate": 0.0,
}
SENTENCE = {
    "input_ids": ids(),
    "attention_mask": lengths(),
    "token_type_ids": {"shape": [LENGTH], "parts": 2},
}
MASKED = {
    "masked_lm_positions": {"shape": [4], "high": LENGTH},
    "masked_lm_mask": ones(4),
    "labels": ids(4),
}


def bert(name: str, model: str, fields: dict[str, Any], **options: Any) -> Case:
    """Return a case of a BERT encoder."""
    return Case(
        name=name, model={"name": model, **BERT, **options}, fields=SENTENCE | fields, eval_steps=1
    )


BERTS = [
    bert(
        "bert/pretraining",
        "bert",
        MASKED | {"next_sentence_label": {"shape": [], "high": 2}},
    ),
    bert("bert/mlm", "bert", MASKED, disable_nsp=True, num_segments=2),
    bert(
        "bert/classifier",
        "bert/classifier",
        {"labels": {"shape": [], "high": 3}},
        num_labels=3,
        problem_type="single_label_classification",
        task_dropout=0.0,
    ),
    bert(
        "bert/tokens",
        "bert/token_classifier",
        {"labels": ids(high=5), "loss_mask": lengths()},
        num_classes=5,
        loss_weight=1.0,
        encoder_output_dropout_rate=0.0,
    ),
    bert(
        "bert/summarization",
        "bert/extractive_summarization",
        {
            "cls_indices": {"shape": [4], "high": LENGTH},
            "cls_weights": ones(4),
            "labels": {"shape": [4], "high": 2},
        },
    ),
]
T5: dict[str, Any] = {
    "src_vocab_size": VOCAB,
    "d_model": WIDTH,
    "d_kv": 16,
    "d_ff": 128,
    "encoder_num_hidden_layers": 2,
    "decoder_num_hidden_layers": 2,
    "num_heads": 4,
    "dropout_rate": 0.0,
    "src_max_position_embeddings": LENGTH,
    "tgt_max_position_embeddings": LENGTH,
    "lm_loss_weight": 0.0625,
}
TRANSLATION = {
    "input_ids": ids(),
    "attention_mask": lengths(),
    "decoder_input_ids": ids(),
    "decoder_attention_mask": lengths(),
    "labels": {"like": "decoder_input_ids", "shift": 1},
}
SEQUENCES = [
    Case(
        name="t5/relative",
        model={
            "name": "t5",
            **T5,
            "position_embedding_type": "relative",
            "relative_attention_num_buckets": 8,
        },
        fields=TRANSLATION,
        eval_steps=1,
    ),
    Case(
        name="transformer/fixed",
        model={"name": "transformer", **T5, "position_embedding_type": "fixed"},
        fields=TRANSLATION,
        eval_steps=1,
    ),
]
IMAGE = {"image_size": [16, 16], "num_channels": 3, "patch_size": [8, 8]}
VIT = {
    "hidden_size": WIDTH,
    "num_heads": 4,
    "num_hidden_layers": 2,
    "filter_size": 128,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    "embedding_dropout_rate": 0.0,
}
PIXELS = {"shape": [3, 16, 16], "normal": 1.0, "dtype": "float32"}
VISION = [
    Case(
        name="vit/classification",
        model={"name": "vision_transformer", **VIT, **IMAGE, "num_classes": 8},
        fields={"0": PIXELS, "1": {"shape": [], "high": 8}},
        eval_steps=1,
    ),
    Case(
        name="fc_mnist/small",
        model={"name": "fc_mnist", "hidden_sizes": [32, 16], "activation_fn": "relu"},
        fields={
            "0": {"shape": [784], "normal": 1.0, "dtype": "float32"},
            "1": {"shape": [], "high": 10, "dtype": "int64"},
        },
        eval_steps=1,
    ),
]
ENCODERS = [*BERTS, *SEQUENCES, *VISION]
