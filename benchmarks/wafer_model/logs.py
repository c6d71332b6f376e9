"""Throughput that real systems logged: the measurements the model is calibrated and tested on.

Rates: ALCF AI testbed documentation and logs, collected in the project's calibration data (table
"measured throughput"). Model dimensions are public; their sources are beside them. A global batch
of N samples was run on the number of systems given.
"""

from dataclasses import dataclass, replace

from appliance.wafer.hardware import CS2, CS3, Machine
from appliance.wafer.planner.transformer import Transformer

GPT_J_6B = Transformer(
    name="GPT-J 6B",
    layers=28,
    hidden=4096,
    heads=16,
    ffn=16384,
    vocab=50400,
    sequence=2048,
    is_tied=False,
)
"""Wang and Komatsuzaki 2021, mesh-transformer-jax: GPT-J-6B."""

BERT_LARGE_128 = Transformer(
    name="BERT-large MSL128",
    layers=24,
    hidden=1024,
    heads=16,
    ffn=4096,
    vocab=30522,
    sequence=128,
    head_fraction=0.15,
    is_causal=False,
)
"""Devlin et al. 2018, table of sizes; 15 % of the tokens are predicted."""

ESM2_35M = Transformer(
    name="ESM-2 35M",
    layers=12,
    hidden=480,
    heads=20,
    ffn=1920,
    vocab=33,
    sequence=1024,
    head_fraction=0.15,
    is_prepared_singly=True,
    is_causal=False,
)
"""Lin et al. 2022, esm2_t12_35M_UR50D; crops of 1,024 residues, 2 M tokens per batch."""

DIT_2B = Transformer(
    name="DiT-2B",
    layers=28,
    hidden=2048,
    heads=32,
    ffn=8192,
    vocab=0,
    sequence=256,
    patch_features=16,
    is_conditioned=True,
    is_prepared_singly=True,
    is_causal=False,
)
"""Peebles and Xie 2022: the scheme of DiT-XL (28 layers, patches of 2 x 2 of a 32 x 32 x 4 latent,
18 d^2 parameters per block) at d = 2048 gives 2.1 B. Dimensions of the run itself: assumption."""

VIT_B = Transformer(
    name="ViT-B/16",
    layers=12,
    hidden=768,
    heads=12,
    ffn=3072,
    vocab=0,
    sequence=197,
    patch_features=768,
    is_prepared_singly=True,
    is_causal=False,
)
"""Dosovitskiy et al. 2020: ViT-B/16 at 224 x 224."""

LLAMA2_7B = Transformer(
    name="Llama2-7B",
    layers=32,
    hidden=4096,
    heads=32,
    ffn=11008,
    vocab=32000,
    sequence=2048,
    is_gated=True,
    is_tied=False,
)
"""Touvron et al. 2023. The logs do not say whether sequences were of 2,048 or 4,096 tokens."""

LLAMA_7B = replace(LLAMA2_7B, name="LLaMA-7B")
"""Touvron et al. 2023: the same dimensions."""

LLAMA3_8B = Transformer(
    name="Llama3-8B",
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    ffn=14336,
    vocab=128256,
    sequence=2048,
    is_gated=True,
    is_tied=False,
)
"""Dubey et al. 2024; the configuration's name says 2k."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputLog:
    """One logged run.

    Attributes:
        name: Model, machine, release, batch.
        model: What was trained.
        machine: On what.
        num_systems: On how many.
        batch_size: Global batch.
        samples_per_second: As logged.
        family: Logs that say nothing new of each other: models of one shape.
    """

    name: str
    model: Transformer
    machine: Machine
    num_systems: int
    batch_size: int
    samples_per_second: float
    family: str


_FAMILIES = {LLAMA_7B.name: LLAMA2_7B.name}


def _log(
    model: Transformer,
    machine: Machine,
    release: str,
    *,
    systems: int,
    batch: int,
    rate: float,
) -> ThroughputLog:
    return ThroughputLog(
        name=f"{model.name} {systems}x{machine.name} {release} batch {batch}",
        model=model,
        machine=machine,
        num_systems=systems,
        batch_size=batch,
        samples_per_second=rate,
        family=_FAMILIES.get(model.name, model.name),
    )


LOGS: tuple[ThroughputLog, ...] = (
    _log(GPT_J_6B, CS2, "R2.0.3", systems=2, batch=120, rate=43.67),
    _log(BERT_LARGE_128, CS2, "R2.0.3", systems=1, batch=1024, rate=4047.95),
    _log(BERT_LARGE_128, CS2, "2024-04", systems=1, batch=512, rate=2937.77),
    _log(ESM2_35M, CS2, "R2.3.0", systems=1, batch=2048, rate=585.9),
    _log(GPT_J_6B, CS3, "2025-10", systems=1, batch=120, rate=44.75),
    _log(ESM2_35M, CS3, "2025-10", systems=1, batch=2048, rate=989.0),
    _log(DIT_2B, CS3, "2025-10", systems=1, batch=1168, rate=876.0),
    _log(VIT_B, CS3, "2025-10", systems=1, batch=2850, rate=776.0),
    _log(LLAMA2_7B, CS3, "2025-12", systems=1, batch=32, rate=28.51),
    _log(LLAMA2_7B, CS3, "2025-12", systems=1, batch=64, rate=31.35),
    _log(LLAMA2_7B, CS3, "2025-12", systems=1, batch=128, rate=32.44),
    _log(LLAMA2_7B, CS3, "2025-11", systems=1, batch=512, rate=33.28),
    _log(LLAMA2_7B, CS3, "2025-11", systems=1, batch=1024, rate=33.06),
    _log(LLAMA3_8B, CS3, "R2.5", systems=1, batch=960, rate=19.40),
    _log(GPT_J_6B, CS2, "R1.9.2", systems=1, batch=66, rate=19.81),
    _log(BERT_LARGE_128, CS2, "2024-04", systems=1, batch=2048, rate=6729.0),
    _log(BERT_LARGE_128, CS2, "2024-04 second", systems=1, batch=1024, rate=4862.0),
    _log(BERT_LARGE_128, CS2, "2024-04 second", systems=1, batch=512, rate=2928.0),
    _log(VIT_B, CS2, "R2.4", systems=1, batch=2850, rate=657.4),
    _log(LLAMA_7B, CS2, "2024-03", systems=1, batch=99, rate=20.45),
)
"""Weight streaming with release 1.9 or later: what the calibration is fitted to. ViT-B/16 on a CS-2
had two input workers."""

EARLIER_LOGS: tuple[ThroughputLog, ...] = (
    _log(GPT_J_6B, CS2, "R1.7", systems=2, batch=130, rate=27.53),
    _log(GPT_J_6B, CS2, "R1.8", systems=2, batch=130, rate=33.98),
)
"""Older kernels; reported beside the model, not fitted."""
