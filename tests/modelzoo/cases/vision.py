"""Images: classification, diffusion, self-supervision, and language models that see."""

from __future__ import annotations

from typing import Any

from tests.modelzoo.cases.case import LENGTH, WIDTH, Case, ids, lengths
from tests.modelzoo.cases.language import GPT, LLAMA

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
VISION_CLASSIFIERS = [
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
NOISED = {
    "input": {"shape": [4, 8, 8], "normal": 1.0, "dtype": "float32"},
    "label": {"shape": [], "high": 8},
    "diffusion_noise": {"shape": [4, 8, 8], "normal": 1.0, "dtype": "float32"},
    "timestep": {"shape": [], "high": 64},
}


def dit(name: str, **options: Any) -> Case:
    """Return a case of a diffusion transformer; its head does not begin with zeros."""
    model = {
        "name": "dit",
        **VIT,
        "num_classes": 8,
        "patch_size": [2, 2],
        "latent_size": [8, 8],
        "latent_channels": 4,
        "frequency_embedding_size": 32,
        "num_diffusion_steps": 64,
        "position_embedding_type": "fixed",
        "head_initializer": {"name": "xavier_uniform"},
        **options,
    }
    return Case(name=f"dit/{name}", model=model, fields=NOISED, eval_steps=1, wide=True)


DIFFUSION = [
    dit("convolved_patches", use_conv_patchified_embedding=True),
    dit("linear_patches", use_conv_transpose_unpatchify=False),
    dit("learned_positions", position_embedding_type="learned"),
]
EYE = {
    "name": "ViTModel",
    **VIT,
    **IMAGE,
    "position_embedding_type": "learned",
    "use_post_embed_layer_norm": True,
    "use_embed_proj_bias": False,
    "nonlinearity": "quick_gelu",
    "use_conv_patchified_embedding": True,
    "prepend_cls_token": True,
}
PATCHES = 4
PROJECTOR = {
    "name": "FeedForwardNetwork",
    "input_unit": WIDTH,
    "layers_units": [WIDTH, WIDTH],
    "layers_activation": ["gelu", None],
    "use_bias": True,
}
SPEAKER = {"name": "LlamaModel", **GPT, **LLAMA}
SEEN_TEXT = {
    "text_input_ids": ids(),
    "loss_mask": lengths(),
    "key_padding_mask": {"shape": [LENGTH], "value": 0},
    "labels": {"like": "text_input_ids", "shift": 1},
}
LLAVA = {
    "name": "llava",
    "image_model": EYE,
    "text_model": SPEAKER,
    "projector": {"image_model": PROJECTOR},
    "image_feature_select_layer_idx": -2,
    "image_start_idx": 1,
}
MULTIMODAL = {
    "name": "multimodal_simple",
    "image_model_list": {
        "image_feature_select_mode": "patch",
        "image_models": [{"image_encoder": {**EYE, "image_layer_idx": -2}}],
        "global_image_projection": PROJECTOR,
    },
    "text_model": SPEAKER,
    "loss_weight": 1.0,
}
MANY_IMAGES = {
    **SEEN_TEXT,
    "image_data": {**PIXELS, "shape": [2, *PIXELS["shape"]]},
    "image_data_loc": {"shape": [2, PATCHES], "count": True, "low": 1},
    "token_modality_idx": {"shape": [LENGTH], "value": 0},
}
FROZEN = ["^image_model", "^text_model"]
SPEAKERS = [
    Case(
        name="llava/phase_2",
        model={**LLAVA, "freeze": FROZEN[:1]},
        fields={**SEEN_TEXT, "image_data": PIXELS},
        eval_steps=1,
    ),
    Case(
        name="llava/phase_1",
        model={**LLAVA, "freeze": FROZEN},
        fields={**SEEN_TEXT, "image_data": PIXELS},
        eval_steps=1,
    ),
    Case(name="multimodal/images", model=MULTIMODAL, fields=MANY_IMAGES, eval_steps=1),
    Case(
        name="multimodal/frozen",
        model={**MULTIMODAL, "freeze": ["^image_model.image_model_list", "^text_model"]},
        fields=MANY_IMAGES,
        eval_steps=1,
    ),
]
TRUNK = {
    "name": "MultiImageViTModel",
    **VIT,
    **IMAGE,
    "position_embedding_type": "learned",
    "layerscale_value": 0.0625,
    "interpolate_position_embedding": {
        "antialias": False,
        "interpolate_offset": 0.0,
        "local_patch_dims": [1, 1],
    },
    "prepend_cls_token": True,
    "use_masked_patches": True,
}
HEAD = {
    "name": "DinoHead",
    "input_size": WIDTH,
    "hidden_size": 64,
    "output_size": 32,
    "bottleneck_size": 16,
    "num_layers": 3,
}
TEMPERATURES = {
    "input_size": 32,
    "warmup_teacher_temp": 0.0625,
    "teacher_temp": 0.125,
    "warmup_teacher_temp_steps": 2,
    "total_steps": 8,
    "student_temp": 0.125,
    "center_momentum": 0.875,
}
GLOBAL, LOCAL, MASKS = (
    f"ssl_transform.output('{name}')" for name in ("global_view", "local_view", "collated_masks")
)
AVERAGE = {
    "scheduler_name": "cosine",
    "scheduler_params": {"ema_decay_start": 0.75, "ema_decay_end": 1.0, "total_steps": 8},
}


def dino_head(*outputs: str, stop_grad: bool) -> dict[str, Any]:
    """Return a head on outputs of the trunks."""
    inputs = [[f"image_model_trunks.output({place})"] for place in outputs]
    return {"head_model": HEAD, "forward_args": inputs, "stop_grad": stop_grad}


def pairs(*teachers: tuple[str, str]) -> list[dict[str, str]]:
    """Return the models that follow others."""
    return [{"source": a, "target": b} for a, b in teachers]


FOLLOWS = pairs(
    ("image_model_trunks.model(1)", "image_model_trunks.model(0)"),
    ("heads.model(1)", "heads.model(0)"),
    ("heads.model(3)", "heads.model(2)"),
)
DINO = {
    "name": "dino",
    "image_model_trunks": [
        {"image_model": TRUNK, "forward_args": [[GLOBAL, None, None]], "stop_grad": True},
        {
            "image_model": TRUNK,
            "forward_args": [[GLOBAL, None, MASKS], [LOCAL, None, None]],
            "stop_grad": False,
        },
    ],
    "heads": [
        dino_head("0,0,1", stop_grad=True),
        dino_head("1,0,1", "1,1,1", stop_grad=False),
        dino_head("0,0,0", stop_grad=True),
        dino_head("1,0,0", stop_grad=False),
    ],
    "losses": [
        {
            "loss": {"name": "DinoDistillationLoss", **TEMPERATURES},
            "forward_args": [["heads.output(1,0,0)", "heads.output(0,0,0)", "heads.output(1,1,0)"]],
            "stop_grad": False,
        },
        {
            "loss": {"name": "iBOTPatchLoss", **TEMPERATURES},
            "forward_args": [["heads.output(2,0,0)", "heads.output(3,0,0)", MASKS]],
            "stop_grad": False,
        },
    ],
    "copy_init_weights": [{"source": p["target"], "target": p["source"]} for p in FOLLOWS],
    "ema": [{**pair, **AVERAGE} for pair in FOLLOWS],
    "freeze": ["image_model_trunks.model.0.*", "heads.model.0.*", "heads.model.2.*"],
}
VIEWS = {
    "global_view": {**PIXELS, "shape": [2, 3, 16, 16]},
    "local_view": {**PIXELS, "shape": [2, 3, 8, 8]},
    "collated_masks": {"shape": [2, PATCHES], "high": 2, "dtype": "bool"},
}
SELF_SUPERVISED = [
    Case(
        name="dino/v2",
        exact_tolerance=4e-2,  # the loss is a bfloat16 number, and halves in a step
        model=DINO,
        fields=VIEWS,
        tolerance=2e-3,
        because="the program's loss is a bfloat16 number",
    )
]

VISION = [*VISION_CLASSIFIERS, *DIFFUSION, *SPEAKERS, *SELF_SUPERVISED]
