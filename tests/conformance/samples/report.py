"""What the samples cover, and what the client cannot lower, as Markdown."""

from __future__ import annotations

import gzip
import re
from collections import defaultdict
from pathlib import Path

LOST = "the program has lost"
ALL_OPS = Path(__file__).resolve().parent / "ALL_OPS.txt"
OPERATION = re.compile(r'^    (?:%\S+(?:, %\S+)* = )?"?(cirh\.\w+)"?\(?.*?(?: (\{.*?\}))? : ')
TYPES = re.compile(r"tensor<(?:\d+x)*(\w+)>")
ATTRIBUTE = re.compile(r'([\w.]+)(?: = ("[^"]*"|\{[^}]*\}|[^,{}<]+(?:<[^>]*>[^,{}]*)?))?(?:, |$)')

INTRODUCTION = """# Golden samples

Programs as the unmodified client traces them, each with the numbers it must give. `NAME.mlir.gz`
is the program text with its debug locations, `NAME.npz` the state, inputs and outputs of a few
steps on the client's CPU backend in f32. The docstring of `generate.py` has the keys and the
naming rule; `COVERAGE.md` lists the operations that occur.

| names | what |
|---|---|
| without a dot | whole models: the acceptance list, and evaluation variants |
| `op.*` | one operation behind a linear layer, trained for two steps with SGD |
| `layer.*` | PyTorch layers, likewise |
| `loss.*` | loss functions on a linear layer |
| `omit.*` | what PyTorch leaves out silently: labels, padding, empty rows, NaN, kinks |
| `train.*` | optimizers, schedules, grad scalers and 16-bit formats on a small MLP |
| `*.forward` | evaluation only, because the client cannot lower the backward pass |

Things to know when comparing:

* 16-bit values of the program are f32 on the CPU backend. Constants that the program text holds in
  16 bits are already rounded there (0.1 is 9.997560e-02), which no precision setting can undo;
  the models and most probes use constants that are exact.
* Other 16-bit types are typed f16 in the text, with the format in `cs.fp16_type`; bfloat16 is typed
  bf16.
* The client replaces asin, acos, log2, log10 by approximations of its own, and erf's derivative has
  a 16-bit constant. These samples have a key `tolerance`.
* Running statistics of batch norm leave a traced training step as they came in, since the client
  casts them to 16 bits before the op that would update them. `final/` holds what the program says.
* A schedule reports `output_values_<group>`: its value for the next step. Groups that share a value
  share the output of the last of them.
* Pooling in ceil mode keeps no trace of it but the shape of its result.
"""

UNDEFINED = (
    "`SHAPE_INFER_... must be defined!`: the client cannot infer its shape; nor does its lowering "
    "write it for any function of PyTorch that was tried"
)
RAW = (
    "no function of the client or of its Model Zoo calls it, its meaning is published nowhere, "
    "and the CPU backend has none to compare with; a call of `torch.ops.cirh` is refused by name"
)
NOT_EMITTED = {
    UNDEFINED: (
        *("Adam", "Fscale", "FusedTopPDeinterleaved", "GradientDescent", "MaskFromTopK"),
        *("NonZero", "SoftmaxCrossEntropyWithLogits"),
    ),
    "`failed to legalize operation 'torch.aten.nonzero'`: so `torch.nonzero` does not emit it": (
        "NonZero",
    ),
    RAW: (
        *("Composite", "ExpertParallelShuffle", "ExpertParallelUnshuffle", "InfSparseMatMul"),
        *("GlobalTensorToWaferShards", "WaferShardsToGlobalTensor", "MultiboxSelectWeight"),
        *("MultiboxStoreWeight", "LowRankScan", "DLowRankScan"),
    ),
    "`in k-to-k mode, expect result shape to be unity`, and as those in the line above": (
        "ExpertParallelShuffleKtoK",
        "ExpertParallelUnshuffleKtoK",
    ),
}
"""What became of a program that calls the operation, and the operations."""


def not_emitted() -> list[str]:
    """Return the section on operations that no program has, with the proof."""
    lines = [
        "",
        "## What no script emits",
        "",
        "A script that calls each of them through `torch.ops.cirh` was traced by client 2.10.0.",
        "",
        "| operations | what became of it |",
        "|---|---|",
    ]
    for proof, names in NOT_EMITTED.items():
        lines.append(f"| {', '.join(f'cirh.{name}' for name in names)} | {proof} |")
    return lines


def readme(errors: dict[str, str], folder: Path) -> str:
    """Return README.md: what the samples are, and a table of what the client refused."""
    samples = sorted(path.name.removesuffix(".npz") for path in folder.glob("*.npz"))
    lines = [INTRODUCTION, f"There are {len(samples)} samples.", ""]
    lines += [
        "## What the client cannot lower",
        "",
        "| sample | lowers | the client's error |",
        "|---|---|---|",
    ]
    for name in sorted(name for name in errors if not name.endswith(".forward")):
        lowered = "forward only" if f"{name}.forward" in samples else "nothing"
        if errors[name].startswith(LOST):
            lowered = "incompletely"
        lines.append(f"| `{name}` | {lowered} | {errors[name]} |")
    return "\n".join(lines) + "\n"


def operations(text: str) -> list[tuple[str, str]]:
    """Return every operation of a program with its attributes and element types."""
    found = []
    for line in text.splitlines():
        match = OPERATION.match(line)
        if not match:
            continue
        name, attributes = match.groups()
        types = dict.fromkeys(TYPES.findall(line[match.end() :]))
        found.append((name, f"{describe(name, attributes or '')} on {'/'.join(types)}"))
    return found


def describe(name: str, attributes: str) -> str:
    """Return an operation's attributes, without the ones that hold any number or shape."""
    if name == "cirh.Const":
        return "value"
    kept = []
    for key, value in ATTRIBUTE.findall(attributes.strip("{}")):
        if key.startswith("cs."):
            continue
        is_choice = value.startswith('"') or value.strip() in ("true", "false", "")
        kept.append(f"{key}={value.strip()}" if is_choice and value else key)
    return ", ".join(sorted(set(kept))) or "no attributes"


def coverage(folder: Path) -> str:
    """Return COVERAGE.md: operations of the samples against all the lowering tool knows."""
    variants: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in sorted(folder.glob("*.mlir.gz")):
        sample = path.name.removesuffix(".mlir.gz")
        for name, variant in operations(gzip.decompress(path.read_bytes()).decode()):
            variants[name][variant].add(sample)
    known = ALL_OPS.read_text().split()
    missing = [name for name in known if name not in variants]
    unlisted = sorted(set(variants) - set(known))
    lines = [
        "# Operations in the samples",
        "",
        f"{len(known) - len(missing)} of the {len(known)} operations in `ALL_OPS.txt`, which lists",
        f"what the client's lowering tool names, and besides them {', '.join(unlisted)}.",
        "",
        "| operation | attributes and element types | samples | for example |",
        "|---|---|---|---|",
    ]
    for name in sorted(variants):
        for variant, samples in sorted(variants[name].items()):
            example = min(samples, key=lambda sample: (len(sample), sample))
            lines.append(f"| {name} | {variant} | {len(samples)} | `{example}` |")
    lines += ["", "## In no sample", "", ", ".join(missing) + "."]
    lines += not_emitted()
    return "\n".join(lines) + "\n"
