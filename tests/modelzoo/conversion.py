"""A checkpoint from the Hugging Face format to the Model Zoo's, and back after training.

Imported by the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

SEED = 11
NEWEST = "cs-2.9"
"""The converters of release 2.10.0 know no newer format; their `cs-current` finds none."""

RETIRED = ("norm_first", "use_ff_layer1_dropout")
"""What the converters of llama and mistral still write, and the models no longer take."""


def from_hugging_face(conversion: Mapping[str, Any], folder: Path) -> tuple[str, dict[str, Any]]:
    """Make a model with drawn weights and convert it.

    Args:
        conversion: `model`, the name that the converter has for it; `class`, its class in
            `transformers`; `type`, its type there; and `config`.
        folder: Where the checkpoints go.

    Returns:
        The path of the Model Zoo's checkpoint, and section `init.model` of its configuration.
    """
    import transformers
    import yaml
    from cerebras.modelzoo.tools.convert_checkpoint import convert_checkpoint_from_file

    torch.manual_seed(SEED)
    config = transformers.AutoConfig.for_model(conversion["type"], **conversion["config"])
    config.architectures = [conversion["class"]]
    model = getattr(transformers, conversion["class"])(config)
    model.save_pretrained(folder, safe_serialization=False)
    checkpoint, path = convert_checkpoint_from_file(
        conversion["model"],
        "hf",
        NEWEST,
        str(folder / "pytorch_model.bin"),
        str(folder / "config.json"),
        outputdir=str(folder / "cs"),
    )
    made = yaml.safe_load(Path(path).read_text())
    section = {name: value for name, value in made["model"].items() if name not in RETIRED}
    return checkpoint, {"name": conversion["model"], **section}


def loss_in_hugging_face(
    conversion: Mapping[str, Any],
    checkpoint: str,
    model: Mapping[str, Any],
    folder: Path,
    batch: Mapping[str, torch.Tensor],
) -> float:
    """Convert a trained checkpoint back, and return the cross entropy of a batch in `transformers`.

    Args:
        conversion: As above.
        checkpoint: The Model Zoo's.
        model: Section `init.model` of its configuration.
        folder: Where the converted one goes.
        batch: Of which the fields in `inputs` are given to the model.
    """
    import transformers
    import yaml
    from cerebras.modelzoo.tools.convert_checkpoint import convert_checkpoint_from_file

    folder.mkdir()
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({"model": dict(model)}))
    found, _ = convert_checkpoint_from_file(
        conversion["model"],
        NEWEST,
        "hf",
        checkpoint,
        str(config),
        outputdir=str(folder),
        export_safetensors=True,
    )
    loaded, said = getattr(transformers, conversion["class"]).from_pretrained(
        found, torch_dtype=torch.float32, output_loading_info=True
    )
    if said["missing_keys"] or said["unexpected_keys"]:
        raise ValueError(f"The converted checkpoint does not fit: {said}.")
    inputs = {name: batch[field].long() for name, field in conversion["inputs"].items()}
    with torch.no_grad():
        output = loaded.eval()(**inputs)
    logits = output.prediction_logits if hasattr(output, "prediction_logits") else output.logits
    if "masked_lm_positions" in batch:
        places = batch["masked_lm_positions"].long().unsqueeze(-1)
        logits = logits.gather(1, places.expand(-1, -1, logits.shape[-1]))
    labels = batch["labels"].long()
    losses = torch.nn.functional.cross_entropy(
        logits.float().transpose(1, 2), labels, reduction="none"
    )
    mask = batch[conversion["mask"]].float()
    return float((losses * mask).sum() / mask.sum())
