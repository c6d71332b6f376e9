"""Generate golden samples: program text traced by the client, and the numbers it must give.

Run it with the client's Python (`cerebras-pytorch` 2.10 installed):

    python tests/conformance/samples/generate.py [--only NAME ...] [--out DIR]

Each sample becomes two files:

* `NAME.mlir.gz`: `cirh.mlir` exactly as `UnaryCompile` would carry it, debug locations kept; only
  directory prefixes of the machine that traced it are removed.
* `NAME.npz`: what the client's CPU backend computed in f32 with the same script, by the names in
  the program text. Keys, where `n` is the number of steps:

    `initial/<tf.resource_name>`   state before the first step
    `input/<cs.input_name>`        batches, stacked: shape (n, *batch)
    `output/<cs.output_name>`      outputs of every step, stacked: shape (n, *output)
    `final/<tf.resource_name>`     state after the last step
    `tolerance`                    only where the client's program approximates a function: the
                                   relative difference to expect

Naming rule: a state tensor is `state.` plus its path in the backend's state tree, joined by dots:
`state.model.<key in model.state_dict()>`, `state.optimizer.state.<index of the parameter over all
groups>.<key>`, `state.schedulers.<index>.last_epoch`, `state.grad_scaler.<index>.<key>`. An input
is `input_` plus its path in the batch joined by underscores (`input_0` in a tuple, `input_ids` in
a dict becomes `input_input_ids`). An output is `output_` plus the name of the step closure's
argument. A tied weight has one entry, under the name the program text uses.

Only names that occur in the program text are recorded. State that the program returns as it came
in (running statistics of batch norm: see `carried_over`) has its initial value in `final/`. The
program's 16-bit values are f32 on the CPU, so compare with 16-bit types carried as f32. A sample
with random ops has initial state and inputs, but no outputs and no final state.

Tracing and CPU run each need a fresh process, because a process has one backend: both are forked
from one parent that has imported the client.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE)
sys.path.insert(1, str(HERE.parent / "client"))

import cerebras.pytorch as cstorch  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from catalog import SAMPLES  # noqa: E402
from catalog.sample import Sample  # noqa: E402
from data import loader  # noqa: E402
from report import LOST, coverage, readme  # noqa: E402
from training import Session, named_inputs, named_state  # noqa: E402

TOOL_SAID = re.compile(r"(?:error|LLVM ERROR): (.*?)(?:\. If this is intended|$)", re.MULTILINE)
RETURN = re.compile(r"^    return (.*?) : ", re.MULTILINE)
STATE_ARGUMENT = re.compile(
    r"(%arg\d+): tensor<[^>]*> {[^}]*tf\.aliasing_output = (\d+) : i64, "
    r'tf\.resource_name = "([^"]+)"'
)
NAME_IN_PROGRAM = re.compile(r'(tf\.resource_name|cs\.input_name|cs\.output_name) = "([^"]+)"')


class LoweringError(Exception):
    """The client cannot lower the model to the program's dialect."""


def run_steps(session: Session, sample: Sample, num_steps: int, on_step) -> None:
    """Drive the session through the client's data executor."""

    @cstorch.trace
    def step(batch):
        outputs = session.step(batch)
        report(**outputs)

    @cstorch.step_closure
    def report(**outputs):
        on_step(outputs)

    dataset, batch_size = sample.recipe.dataset, sample.recipe.batch_size
    dataloader = cstorch.utils.data.DataLoader(loader, dataset, batch_size)
    for batch in cstorch.utils.data.DataExecutor(dataloader, num_steps=num_steps):
        step(batch)


def trace(sample: Sample, artifact_dir: Path) -> str:
    """Trace a sample without a cluster and return its program text."""
    cstorch.backend("CSX", artifact_dir=str(artifact_dir), validate_only=True)
    cstorch.amp.set_half_dtype(sample.recipe.half_dtype)
    session = Session(sample.recipe, training=sample.training)
    run_steps(session, sample, 1, lambda outputs: None)
    executor_dir = artifact_dir / "executors" / "000001"
    text = (executor_dir / "cirh.mlir").read_text()
    if not text:  # with validate_only the client keeps a failed lowering to itself
        reports = [json.loads(path.read_text()) for path in executor_dir.glob("traceback_*.json")]
        raise LoweringError(reports[0]["message"] if reports else "the lowering tool died")
    return text


def compute(sample: Sample, artifact_dir: Path) -> dict[str, np.ndarray]:
    """Run a sample on the client's CPU backend in f32 and return its golden arrays."""
    cstorch.backend("CPU", artifact_dir=str(artifact_dir))
    session = Session(sample.recipe, training=sample.training)
    golden = {f"initial/{name}": to_numpy(value) for name, value in named_state(session)}
    batches = loader(sample.recipe.dataset, sample.recipe.batch_size)
    inputs = [dict(named_inputs(batch)) for batch in islice(batches, sample.num_steps)]
    for name in inputs[0]:
        golden[f"input/{name}"] = np.stack([to_numpy(step[name]) for step in inputs])
    if sample.without_numbers:
        return golden
    steps: list[dict[str, np.ndarray]] = []
    run_steps(
        session,
        sample,
        sample.num_steps,
        lambda outputs: steps.append(
            {name: to_numpy(value) for name, value in (outputs | schedule_values(session)).items()}
        ),
    )
    for name in steps[0]:
        golden[f"output/output_{name}"] = np.stack([step[name] for step in steps])
    golden.update({f"final/{name}": to_numpy(value) for name, value in named_state(session)})
    return golden


def schedule_values(session: Session) -> dict[str, torch.Tensor]:
    """Return what a schedule reports in each step: its value for the *next* step, by group."""
    values = session.scheduler.get_last_value() if session.scheduler is not None else []
    return {f"values_{k}": torch.as_tensor(v, dtype=torch.float32) for k, v in enumerate(values)}


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Copy a tensor; numpy has no bfloat16, so that becomes f32."""
    tensor = tensor.detach()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).clone().numpy()


def one_line(error: BaseException) -> str:
    """Return the part of the client's error that says what it cannot do."""
    text = str(error) or type(error).__name__
    if undefined := re.search(r"torch::lazy::compute_shape_(\w+)", text):
        return f"{type(error).__name__}: no shape inference for {undefined.group(1)}"
    text = " ".join(text.split())
    for detail in (
        " To re-run:",
        " Called with",
        " Check graph dump",
        " Stack Trace",
        " see current operation",
    ):
        text = text.split(detail)[0]
    return f"{type(error).__name__}: {text[:200]}".replace("|", "/")


def in_child(task: Callable[[Path], bytes]) -> tuple[bytes | None, str]:
    """Run a task in a forked process; return its bytes, or None and the error."""
    with tempfile.TemporaryDirectory() as scratch:
        result, error = Path(scratch) / "result", Path(scratch) / "error"
        child = os.fork()
        if child == 0:
            try:
                log = os.open(Path(scratch) / "log", os.O_CREAT | os.O_WRONLY)
                os.dup2(log, 1)
                os.dup2(log, 2)
                artifacts = Path(scratch) / "artifacts"
                artifacts.mkdir()
                os.chdir(scratch)
                result.write_bytes(task(artifacts))
            except BaseException as failure:  # noqa: BLE001 - the parent reports what it was
                error.write_text(one_line(failure))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        if result.exists():
            return result.read_bytes(), ""
        reason = error.read_text() if error.exists() else "the process died"
        log = (Path(scratch) / "log").read_text(errors="replace")
        if reason.endswith("failed:") and (said := TOOL_SAID.search(log)):
            reason = f"{reason} {said.group(1)[:120]}"
        return None, reason


def save_npz(arrays: dict[str, np.ndarray]) -> bytes:
    """Return arrays as the bytes of a compressed npz file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def strip_paths(text: str) -> str:
    """Remove this machine's directories from debug locations."""
    prefixes = {sys.prefix, sys.base_prefix, str(HERE.parent), str(HERE), os.path.expanduser("~")}
    for prefix in sorted(prefixes, key=len, reverse=True):
        text = text.replace(prefix + "/", "")
    return text


def carried_over(text: str) -> set[str]:
    """Return the state names whose new value is their old one: the function returns its argument.

    Running statistics of batch norm are such a case: the client casts them to 16 bits before the op
    that would update them, so the traced program updates a copy, and the CPU backend the original.
    """
    returned = RETURN.search(text).group(1).split(", ")
    return {
        name
        for argument, result, name in STATE_ARGUMENT.findall(text)
        if returned[int(result)] == argument
    }


def keep_program_names(text: str, golden: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Drop arrays the program does not name; fail if it names one that is missing."""
    names = {name for _, name in NAME_IN_PROGRAM.findall(text)}
    kept = {key: value for key, value in golden.items() if key.split("/", 1)[1] in names}
    recorded = {key.split("/", 1)[1] for key in kept}
    missing = sorted(name for name in names - recorded if not name.startswith("output_"))
    if missing:
        raise KeyError(f"the program names {missing}, the CPU run has no such tensors")
    for name in carried_over(text):
        kept[f"final/{name}"] = kept[f"initial/{name}"]
    return kept


def generate(name: str, sample: Sample, out: Path) -> str:
    """Write one sample; return the client's error, or an empty string."""
    text, error = in_child(lambda scratch: trace(sample, scratch).encode())
    if text is None:
        return error
    program = strip_paths(text.decode())
    raw, error = in_child(lambda scratch: save_npz(compute(sample, scratch)))
    if raw is None:
        return "CPU run: " + error
    arrays = dict(np.load(io.BytesIO(raw)))
    try:
        golden = keep_program_names(program, arrays)
    except (KeyError, ValueError) as failure:
        return one_line(failure)
    if sample.tolerance:
        golden["tolerance"] = np.float64(sample.tolerance)
    packed = gzip.compress(program.encode(), 9, mtime=0)
    (out / f"{name}.mlir.gz").write_bytes(packed)
    (out / f"{name}.npz").write_bytes(save_npz(golden))
    return ""


def generate_or_forward(name: str, sample: Sample, out: Path) -> dict[str, str]:
    """Write one sample, or its forward pass alone if the client can lower only that.

    Returns the client's errors by the name of the sample that failed.
    """
    if sample.lost:
        return {name: f"{LOST} {sample.lost}"}
    error = generate(name, sample, out)
    if not error:
        return {}
    if not sample.training or name.startswith("train."):
        return {name: error}
    forward_error = generate(f"{name}.forward", replace(sample, training=False), out)
    return {name: error} | ({f"{name}.forward": forward_error} if forward_error else {})


@contextlib.contextmanager
def lowering_tool() -> Iterator[None]:
    """Put a `torch-cirh-opt` on PATH that starts at once.

    The client's own is a Python script that imports the whole client to find the program beside it.
    It also drops the program's exit status, so that a failed lowering leaves an empty program text
    and no error; with this one the client raises.
    """
    program = Path(cstorch.__path__[0]) / "lib" / "torch-cirh-opt"
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "torch-cirh-opt"
        script.write_text(f'#!/bin/sh\nexec "{program}" "$@"\n')
        script.chmod(0o755)
        os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
        yield


def main() -> int:
    """Generate the samples that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="names; all samples if empty")
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    errors: dict[str, str] = {}
    with lowering_tool():
        for name in options.only or SAMPLES:
            failed = generate_or_forward(name, SAMPLES[name], options.out)
            print(f"{name:40} {failed or 'ok'}", flush=True)
            errors |= failed
    if not options.only:
        (options.out / "README.md").write_text(readme(errors, options.out))
        (options.out / "COVERAGE.md").write_text(coverage(options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
