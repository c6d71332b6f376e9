"""Encoders of text and proteins, encoder-decoders, and retrieval."""

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
ESM2 = {
    **BERT,
    "disable_nsp": True,
    "position_embedding_type": "rotary",
    "rotary_dim": 16,
    "use_final_layer_norm": True,
    "mask_token_id": VOCAB - 1,
    "pad_token_id": 1,
    "mlm_nonlinearity": "gelu",
    "mlm_loss_weight": 0.0625,
    "share_embedding_weights": True,
}
PROTEINS = {"input_ids": ids(), "attention_mask": lengths(), **MASKED}
VSL_PROTEINS = {
    **PROTEINS,
    "attention_mask": ones(),
    "attention_span": {"shape": [LENGTH], "span": 2},
    "position_ids": {"shape": [LENGTH], "parts": 2, "within": True},
}


def esm2(name: str, fields: dict[str, Any], **options: Any) -> Case:
    """Return a case of a protein encoder."""
    return Case(
        name=f"esm2/{name}", model={"name": "esm2", **ESM2, **options}, fields=fields, eval_steps=1
    )


CONTEXTS = 2
"""Of a question: the right one and a wrong one."""
RETRIEVAL = {
    **{f"questions_{name}": field for name, field in SENTENCE.items()},
    **{
        f"ctx_{name}": {**field, "shape": [CONTEXTS, *field["shape"]]}
        for name, field in SENTENCE.items()
    },
    "labels": {"shape": [], "sample": CONTEXTS, "dtype": "int64"},
    "context_labels": {"shape": [], "sample": 1, "dtype": "int64"},
}
TOWER = {**BERT, "encoder_nonlinearity": "gelu", "pooler_nonlinearity": "tanh"}


def dpr(name: str, **options: Any) -> Case:
    """Return a case of dense passage retrieval, with wrong contexts from the whole batch.

    Its scores are products of whole vectors, nowhere normalised, and a step takes a tenth off the
    loss: what rounding changes in the first step (1.4e-3) grows tenfold in three.
    """
    model = {"name": "dpr", "compute_eval_metrics": True, **options}
    fields, exact = RETRIEVAL, 3e-2
    return Case(name=f"dpr/{name}", model=model, fields=fields, eval_steps=1, exact_tolerance=exact)


PROTEIN_ENCODERS = [
    esm2("rotary", PROTEINS, token_dropout=False),
    esm2("token_dropout", PROTEINS, token_dropout=True),
    esm2("vsl", VSL_PROTEINS, token_dropout=False),
]
RETRIEVERS = [
    dpr("two_encoders", q_encoder=TOWER, ctx_encoder=TOWER),
    dpr("one_encoder", encoder=TOWER, use_biencoder=False, pooler_type="mean"),
    dpr("mutual", q_encoder=TOWER, ctx_encoder=TOWER, mutual_information=True),
    dpr("pooled", q_encoder=TOWER, ctx_encoder=TOWER, pooler_type="ffn_pooler"),
]
ENCODERS = [*BERTS, *SEQUENCES, *PROTEIN_ENCODERS, *RETRIEVERS]
