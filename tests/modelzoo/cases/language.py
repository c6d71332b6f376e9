"""Decoders: families, position encodings, attention, experts, and what is trained on them."""

from __future__ import annotations

from typing import Any

from tests.modelzoo.cases.case import LENGTH, TOKENS, VOCAB, WIDTH, Case, ids, ones

GPT: dict[str, Any] = {
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
ROTARY = {"position_embedding_type": "rotary", "rotary_dim": 16}
LLAMA = {
    **ROTARY,
    "norm_type": "rmsnorm",
    "nonlinearity": "swiglu",
    "use_projection_bias_in_attention": False,
    "use_ffn_bias_in_attention": False,
    "use_ffn_bias": False,
    "use_bias_in_output": False,
    "share_embedding_weights": False,
}
GROUPED = {"attention_module": "multiquery_attention"}


def gpt(name: str, *, model: str = "gpt2", eval_steps: int = 0, **options: Any) -> Case:
    """Return a case of a decoder."""
    return Case(
        name=name,
        model={"name": model, **GPT, **options},
        fields=TOKENS,
        eval_steps=eval_steps,
    )


def experts(name: str, **moe: Any) -> Case:
    """Return a case of routed experts."""
    options = {"num_experts": 4, "top_k": 2, "moe_implementation": "experimental", **moe}
    model = {"name": "mixtral", **GPT, **LLAMA, "moe": options}
    return Case(name=f"moe/{name}", model=model, fields=TOKENS, eval_steps=1)


FAMILIES = [
    gpt("gpt2/learned", eval_steps=2),
    gpt("gpt3/learned", model="gpt3"),
    gpt("llama/rotary", model="llama", eval_steps=2, **LLAMA),
    gpt(
        "llama/grouped",
        model="llama",
        **LLAMA,
        **GROUPED,
        extra_attention_params={"num_kv_groups": 2},
    ),
    gpt(
        "mistral/sliding",
        model="mistral",
        **LLAMA,
        **GROUPED,
        extra_attention_params={"num_kv_groups": 2},
        attention_sliding_window_length=8,
    ),
    gpt(
        "bloom/alibi",
        model="bloom",
        position_embedding_type="alibi",
        embedding_layer_norm=True,
    ),
    gpt("btlm/alibi", model="btlm", position_embedding_type="alibi", nonlinearity="swiglu"),
    gpt("jais/alibi", model="jais", position_embedding_type="alibi", nonlinearity="swiglu"),
    gpt(
        "santacoder/multiquery",
        model="santacoder",
        **GROUPED,
        extra_attention_params={"num_kv_groups": 1},
    ),
    gpt(
        "starcoder/multiquery",
        model="starcoder",
        **GROUPED,
        extra_attention_params={"num_kv_groups": 1},
    ),
    gpt("gemma2/rotary", model="gemma2", **(LLAMA | {"nonlinearity": "geglu"})),
    gpt(
        "gptj/parallel",
        model="gptj",
        rotary_dim=16,
        position_embedding_type="rotary",
        use_untied_layer_norm=False,
    ),
    gpt(
        "gpt-neox/untied",
        model="gpt-neox",
        rotary_dim=16,
        position_embedding_type="rotary",
        use_untied_layer_norm=True,
    ),
    gpt(
        "falcon/multiquery",
        model="falcon",
        rotary_dim=16,
        position_embedding_type="rotary",
        use_untied_layer_norm=False,
        **GROUPED,
        extra_attention_params={"num_kv_groups": 1},
    ),
]
VARIANTS = [
    gpt("gpt2/fixed", position_embedding_type="fixed"),
    gpt("gpt2/alibi", position_embedding_type="alibi"),
    gpt("gpt2/relative", position_embedding_type="relative", num_relative_attention_buckets=8),
    gpt("gpt2/rotary", **ROTARY),
    gpt("gpt2/no_position", position_embedding_type=None),
    gpt("gpt2/rms_norm", norm_type="rmsnorm"),
    gpt("gpt2/biasless_norm", norm_type="biasless-layernorm"),
    gpt("gpt2/relu", nonlinearity="relu"),
    gpt("gpt2/swiglu", nonlinearity="swiglu"),
    gpt("gpt2/geglu", nonlinearity="geglu"),
    gpt("gpt2/reglu", nonlinearity="reglu"),
    gpt("gpt2/squared_relu", nonlinearity="squared_gelu"),
    gpt("gpt2/untied_embeddings", share_embedding_weights=False),
    gpt("gpt2/no_biases", use_ffn_bias=False, use_projection_bias_in_attention=False),
    gpt("gpt2/softmax_in_16_bits", attention_softmax_fp32=False),
    gpt("gpt2/qk_norm", attention_qk_norm_layer="layernorm"),
    gpt("gpt2/logit_softcap", attention_logit_softcapping=8.0, final_logit_softcapping=16.0),
    gpt("gpt2/sliding_window", attention_sliding_window_length=4),
    gpt("gpt2/sinks", attention_sliding_window_length=4, attention_sink_tokens=2),
    gpt("gpt2/loss_by_batch", loss_scaling="batch_size", loss_weight=0.0625),
    gpt("gpt2/mup", mup_base_hidden_size=32, mup_base_filter_size=64),
    gpt("llama/mup", model="llama", **LLAMA, mup_base_hidden_size=32, mup_base_filter_size=64),
    gpt(
        "llama/scaled_rotary",
        model="llama",
        **LLAMA,
        pos_scaling_factor=2.0,
        pos_scaling_type="linear",
    ),
]
EXPERTS = [
    experts("learned"),
    experts("optimized", moe_implementation="optimized"),
    experts("functional", moe_implementation="functional"),
    experts("hash", routing_algorithm="hash", top_k=1),
    experts("uniform", routing_algorithm="uniform"),
    experts("shared_expert", num_shared_experts=1),
    experts("shared_optimized", num_shared_experts=1, moe_implementation="optimized"),
    experts("balanced", load_balancing_loss_coef=0.01),
    experts("null_expert", null_expert_bias=0.25, top_k=1),
    experts(
        "sigmoid",
        router_selection_nonlinearity="sigmoid",
        expert_weighting_nonlinearity="sigmoid",
    ),
    experts("sinkhorn", router_selection_nonlinearity="sinkhorn"),
]
VSL = {
    **TOKENS,
    "attention_mask": ones(),
    "attention_span": {"shape": [LENGTH], "span": 2},
    "position_ids": {"shape": [LENGTH], "parts": 2, "within": True},
}
PAIRS = {
    f"{kind}_{name}": field
    for kind in ("chosen", "rejected")
    for name, field in {
        "input_ids": ids(),
        "attention_mask": ones(),
        "labels": ids(),
    }.items()
}
LORA = {
    "r": 4,
    "alpha": 4,
    "dropout": 0.0,
    "merge_weights": False,
    "target_modules": ["Linear"],
}
OBJECTIVES = [
    Case(name="vsl/gpt2", model={"name": "gpt2", **GPT}, fields=VSL),
    Case(name="vsl/llama", model={"name": "llama", **GPT, **LLAMA}, fields=VSL),
    *(
        Case(
            name=f"dpo/{loss}",
            model={
                "name": "dpo",
                "policy_model": {"name": "llama", **GPT, **LLAMA, "compute_eval_metrics": False},
                "dpo": {"beta": 0.125, "loss_type": loss},
            },
            fields=PAIRS,
        )
        for loss in ("sigmoid", "hinge", "ipo")
    ),
    *(
        Case(
            name=f"lora/{name}",
            model={"name": name, **GPT, **options},
            fields=TOKENS,
            init={"callbacks": [{"Lora": {"lora_params": LORA}}]},
        )
        for name, options in (("gpt2", {}), ("llama", LLAMA))
    ),
]

LANGUAGE = [*FAMILIES, *VARIANTS, *EXPERTS, *OBJECTIVES]
