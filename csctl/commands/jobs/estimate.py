"""`csctl estimate`: what N systems would do with a model; contacts no cluster."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import yaml

from appliance.compiler.estimation import captured_program
from appliance.core.errors import InternalError, UserError
from appliance.core.integers import MAX_POSITION, find_integer
from appliance.core.plans.plan import Execution
from appliance.core.plans.plan_text import parse_plan
from appliance.wafer.hardware import Machine, find_machine, machine_from_mapping
from appliance.wafer.planner.curves import loss_picture, scaling_picture
from appliance.wafer.planner.planner import Estimate, estimate
from appliance.wafer.planner.report import report
from appliance.wafer.planner.transformer import Transformer, described_transformer
from appliance.wafer.timing.layer_timing import InputPipeline
from appliance.wafer.timing.program_operations import program_step
from appliance.wafer.timing.step_program import StepProgram
from appliance.wire.requests.executions import parse_execution
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import option
from csctl.output.documents.output_formats import OutputFormat, format_document
from csctl.output.estimates import estimate_document, estimate_text

_PLAN_FILE = "plan.txt"
_PLAN_START = "plan {"
_MAX_SYSTEMS = 100_000

LayersFlag = Annotated[
    int | None,
    option(metavar="N", min=1, help="Blocks of a transformer."),
]
HiddenFlag = Annotated[
    int | None,
    option(metavar="N", min=1, help="Width of the residual stream."),
]
HeadsFlag = Annotated[
    int | None,
    option(
        metavar="N",
        min=1,
        help="Attention heads. [default: heads of 128 features, or as near as divides]",
    ),
]
KvHeadsFlag = Annotated[
    int | None,
    option(metavar="N", min=1, help="Key and value heads. [default: all heads]"),
]
FfnFlag = Annotated[
    int | None,
    option(metavar="N", min=1, help="Feed-forward width. [default: 4 x hidden]"),
]
VocabFlag = Annotated[
    int, option(metavar="N", min=0, help="Entries of the embedding table and of the head.")
]
SequenceFlag = Annotated[int, option(metavar="N", min=1, help="Tokens of a sample.")]
GatedFlag = Annotated[bool, option("--gated", help="The feed-forward is gated (SwiGLU).")]
UntiedFlag = Annotated[bool, option("--untied", help="The head has a table of its own.")]
DensityFlag = Annotated[
    float, option(metavar="FRACTION", help="Non-zero part of the block weights.")
]
SparsityFlag = Annotated[
    float | None,
    option(metavar="FRACTION", help="Zero part of the block weights, instead of --density."),
]
BidirectionalFlag = Annotated[
    bool, option("--bidirectional", help="An encoder such as BERT: tokens attend to all others.")
]
HeadWidthFlag = Annotated[
    int | None,
    option(metavar="N", min=1, help="Features of a head. [default: hidden / heads]"),
]
DecoderLayersFlag = Annotated[
    int,
    option(
        metavar="N",
        min=0,
        help="Blocks of the decoder of an encoder-decoder such as T5; the other numbers are its "
        "encoder's.",
    ),
]
DecoderSequenceFlag = Annotated[
    int | None,
    option(metavar="N", min=1, help="Tokens of a sample's target. [default: as --sequence]"),
]
LoraRankFlag = Annotated[
    int,
    option(metavar="N", min=0, help="Train adapters of this rank alone (LoRA); 0 trains all."),
]
EvaluationFlag = Annotated[bool, option("--evaluation", help="Train nothing: an evaluation job.")]
ProgramFlag = Annotated[
    Path | None,
    option(
        metavar="PATH",
        help="Instead of a description, a program: the cirh.mlir that a client's validate_only run "
        "leaves, or a cs_... directory of the appliance's compile cache.",
    ),
]
SystemsFlag = Annotated[str, option(metavar="LIST", help="Numbers of systems, as in 1,4,16.")]
MachineFlag = Annotated[
    str,
    option(metavar="NAME", help="cs2, cs3, or a YAML file with `base` and what differs."),
]
BatchFlag = Annotated[
    int | None,
    option(
        metavar="N",
        min=1,
        help="Global batch. [default: the program's; for a description, what fills each wafer]",
    ),
]
MicroBatchFlag = Annotated[
    int | None,
    option(
        metavar="N",
        min=1,
        help="Samples of one pass on each system. [default: the fastest that fits]",
    ),
]
TokensFlag = Annotated[
    float | None,
    option(
        metavar="N",
        min=1,
        help="Training tokens, as in 300e9. [default: 20 for each parameter; a thousand steps "
        "of LoRA or an evaluation]",
    ),
]
WorkersFlag = Annotated[int, option(metavar="N", min=1, help="Input workers per system.")]
PlotFlag = Annotated[
    Path | None,
    option(metavar="FILE.svg", help="Draw the scaling curves here."),
]
LossPlotFlag = Annotated[
    Path | None,
    option(metavar="FILE.svg", help="Draw the expected loss here."),
]
ExecutionFlag = Annotated[
    str,
    option(
        metavar="NAME",
        help="weight-streaming, pipelined (all weights on the wafer), or auto (pipelined where "
        "that fits).",
    ),
]
OutputFlag = Annotated[OutputFormat, option("-o", "--output", help="Form of the answer.")]

_Model: TypeAlias = Transformer | StepProgram


def estimate_model(
    invocation: Invocation,
    *,
    layers: LayersFlag = None,
    hidden: HiddenFlag = None,
    heads: HeadsFlag = None,
    kv_heads: KvHeadsFlag = None,
    ffn: FfnFlag = None,
    vocab: VocabFlag = 50257,
    sequence: SequenceFlag = 2048,
    gated: GatedFlag = False,
    untied: UntiedFlag = False,
    density: DensityFlag = 1.0,
    sparsity: SparsityFlag = None,
    bidirectional: BidirectionalFlag = False,
    head_width: HeadWidthFlag = None,
    decoder_layers: DecoderLayersFlag = 0,
    decoder_sequence: DecoderSequenceFlag = None,
    lora_rank: LoraRankFlag = 0,
    evaluation: EvaluationFlag = False,
    program: ProgramFlag = None,
    systems: SystemsFlag = "1",
    machine: MachineFlag = "cs2",
    batch: BatchFlag = None,
    micro_batch: MicroBatchFlag = None,
    tokens: TokensFlag = None,
    workers: WorkersFlag = 1,
    plot: PlotFlag = None,
    loss_plot: LossPlotFlag = None,
    execution: ExecutionFlag = Execution.WEIGHT_STREAMING.value,
    output: OutputFlag = OutputFormat.TABLE,
) -> None:
    """Estimate time, memory, energy and loss of a training.

    No cluster is asked and nothing is queued. All times are simulated: they say what real systems
    would take.
    """
    model: _Model
    if program is not None:
        model, traced_batch = _load_program(program)
        batch = batch or traced_batch
    elif layers is None or hidden is None:
        raise _no_model()
    else:
        model = described_transformer(
            layers=layers,
            hidden=hidden,
            heads=heads,
            kv_heads=kv_heads,
            ffn=ffn,
            vocab=vocab,
            sequence=sequence,
            is_gated=gated,
            is_tied=not untied,
            density=density,
            sparsity=sparsity,
            is_causal=not bidirectional,
            head_width=head_width,
            decoder_layers=decoder_layers,
            decoder_sequence=decoder_sequence,
            lora_rank=lora_rank,
            is_evaluation=evaluation,
        )
    table, inputs = _load_machine(machine), InputPipeline(num_workers=workers)
    estimates = [
        estimate(
            model,
            machine=table,
            num_systems=count,
            batch_size=batch,
            micro_batch=micro_batch,
            tokens=tokens,
            inputs=inputs,
            execution=parse_execution(execution),
        )
        for count in _counts(systems)
    ]
    largest = max(estimates, key=lambda each: each.step.num_systems)
    _draw(largest, plot=plot, loss_plot=loss_plot)
    _write(invocation, estimates, output, is_batch_fixed=batch is not None)


def _no_model() -> UserError:
    return UserError(
        "There is no model to estimate.",
        hint="Describe a transformer with --layers and --hidden, or give a --program.",
    )


def _write(
    invocation: Invocation,
    estimates: Sequence[Estimate],
    output: OutputFormat,
    *,
    is_batch_fixed: bool,
) -> None:
    reports = [report(each) for each in estimates]
    invocation.write(
        format_document(
            estimate_document(reports),
            text=lambda: estimate_text(reports, is_batch_fixed=is_batch_fixed),
            output=output,
        )
    )


def _counts(text: str) -> list[int]:
    found = {find_integer(word.strip(), MAX_POSITION) for word in text.split(",")}
    counts = sorted(each for each in found if each is not None)
    if None in found:
        raise UserError(
            f"--systems {text!r} is not understood.", hint="Give numbers and commas, as in 1,4,16."
        )
    if not 1 <= counts[0] <= counts[-1] <= _MAX_SYSTEMS:
        raise UserError(f"--systems {text!r} is out of range: 1 to {_MAX_SYSTEMS:,} are possible.")
    return counts


def _load_machine(name: str) -> Machine:
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        return find_machine(name)
    try:
        description = yaml.safe_load(_read(path))
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise UserError(f"Machine file {path} is no YAML: {error}.") from error
    if not isinstance(description, dict):
        raise UserError(
            f"Machine file {path} has no fields.", hint="Write, say, `base: cs3` on its first line."
        )
    return machine_from_mapping(description)


def _load_program(path: Path) -> tuple[StepProgram, int]:
    """Return a program's step, and the batch it was traced with."""
    file = path / _PLAN_FILE if path.is_dir() else path
    text = _read(file)
    if not text.startswith(_PLAN_START):
        captured = captured_program(text, name=file.name)
        return captured.step, captured.batch_size
    try:
        plan = parse_plan(text)
    except InternalError as error:
        raise UserError(
            f"{file} is no compiled program: {error}",
            hint="Give a cs_... directory of the appliance's compile cache.",
        ) from error
    return program_step(plan, name=plan.key), plan.batch_size


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}.") from error


def _draw(largest: Estimate, *, plot: Path | None, loss_plot: Path | None) -> None:
    pictures = []
    if plot is not None:
        pictures.append((plot, scaling_picture(largest)))
    if loss_plot is not None:
        pictures.append((loss_plot, loss_picture(largest.flops)))
    for path, picture in pictures:
        try:
            path.write_text(picture)
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror}.") from error
