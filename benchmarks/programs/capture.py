"""The real client's programs for the benchmark models, traced when first asked for.

    python -m benchmarks.programs.capture [--model gpt] [--width 512 ...] [--half-dtype bfloat16]

Programs are kept under `~/.cache/wsc/programs` (or `WSC_PROGRAM_CACHE`), never in the repository.
The client's environment is `~/.cache/wsc/client-2.10.0` (or `WSC_CLIENT_VENV`, see `make client`).
"""

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np
import torch

from appliance.core.plans.plan import Plan
from benchmarks.client_scripts.running import start_client
from benchmarks.engine_parties.interpreters import text_of
from benchmarks.programs.gpt import BETAS
from benchmarks.programs.models import MODELS, Shape, model_name

HERE = Path(__file__).resolve().parent
OPTIMIZER_PREFIX = "state.optimizer.state."
FIRST_POWERS = {"beta1_power": BETAS[0], "beta2_power": BETAS[1]}
"""What the client's AdamW starts its bias correction from."""


def program_text(
    shape: Shape,
    half_dtype: str = "bfloat16",
    *,
    sparsity: float = 0.0,
    algorithm: str = "static",
) -> str:
    """Return the traced training step of a model with AdamW.

    Args:
        shape: Its sizes.
        half_dtype: The 16-bit format the program names; carried as f32 unless precision is exact.
        sparsity: Part of each weight that a mask hides; 0 for a program without masks.
        algorithm: What makes the masks: `static`, `gmp`, `set` or `rigl`.

    Raises:
        subprocess.CalledProcessError: The client could not trace; its output has been printed.
    """
    masked = f"-{algorithm}{sparsity:g}" if sparsity else ""
    model = model_name(shape)
    digest = _source_hash(*dict.fromkeys((f"{model}.py", "gpt.py", "trace.py")))
    path = _cache() / f"{shape.name}-{half_dtype}{masked}-{digest}.mlir.gz"
    if not path.exists():
        arguments: dict[str, object] = {"model": model, "shape": json.dumps(asdict(shape))}
        arguments |= {"half-dtype": half_dtype, "sparsity": sparsity, "algorithm": algorithm}
        _trace("trace.py", arguments, path)
    return gzip.decompress(path.read_bytes()).decode()


def traced_text(script: str, arguments: Mapping[str, int]) -> str:
    """Return the training step that another script of this folder traces.

    Args:
        script: Its file's name.
        arguments: Of its command line, beside `--out`.

    Raises:
        subprocess.CalledProcessError: The client could not trace; its output has been printed.
    """
    sizes = "-".join(f"{name}{value}" for name, value in arguments.items())
    path = _cache() / f"{Path(script).stem}-{sizes}-{_source_hash(script)}.mlir.gz"
    if not path.exists():
        _trace(script, arguments, path)
    return gzip.decompress(path.read_bytes()).decode()


def initial_state(plan: Plan, model: torch.nn.Module) -> dict[str, np.ndarray]:
    """Return the state a plan starts from, by resource name: the model's weights, a fresh AdamW."""
    weights = {f"state.model.{name}": value for name, value in model.state_dict().items()}
    found: dict[str, np.ndarray] = {}
    for tensor in plan.state:
        name = tensor.resource_name
        if name in weights:
            found[name] = weights[name].detach().clone().numpy()
        elif name.startswith(OPTIMIZER_PREFIX):
            value = FIRST_POWERS.get(name.rpartition(".")[2], 0.0)
            found[name] = np.full(tensor.type.shape, value, tensor.type.dtype.container)
        else:
            raise KeyError(f"the program has state {name!r}, which no benchmark model knows")
    return found


def plan_batch(plan: Plan, batch: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Return a batch by the plan's input names."""
    return {f"input_{name}": value.numpy() for name, value in batch.items()}


def _cache() -> Path:
    default = Path.home() / ".cache" / "wsc" / "programs"
    folder = Path(os.environ.get("WSC_PROGRAM_CACHE") or default)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _source_hash(*names: str) -> str:
    """Return a digest of what the traced text depends on, so that a stale one is never used."""
    sources = b"".join((HERE / name).read_bytes() for name in names)
    return hashlib.sha256(sources).hexdigest()[:10]


def _trace(script: str, arguments: Mapping[str, object], path: Path) -> None:
    words: list[object] = ["--out", path]
    for name, value in arguments.items():
        words += [f"--{name}", value]
    with tempfile.TemporaryDirectory(prefix="wsc-trace-") as folder:
        log = Path(folder) / "client.log"
        with start_client(str(HERE / script), *words, directory=Path(folder), log=log) as client:
            printed = text_of(client.stdout).read()
        if (code := client.wait()) or not path.exists():
            print((printed + log.read_text())[-6000:])
            raise subprocess.CalledProcessError(code, script)


def main() -> None:
    """Trace one program and say where its text is kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half-dtype", default="bfloat16")
    parser.add_argument("--model", choices=sorted(MODELS), default="gpt")
    chosen, _ = parser.parse_known_args()
    shape = MODELS[chosen.model].shape()
    for field in fields(shape):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=int, default=field.default)
    options = parser.parse_args()
    shape = replace(shape, **{field.name: getattr(options, field.name) for field in fields(shape)})
    text = program_text(shape, options.half_dtype)
    print(f"{shape.name} {options.half_dtype}: {len(text)} characters in {_cache()}")


if __name__ == "__main__":
    main()
