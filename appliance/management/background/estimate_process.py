"""Answers one question to the planner, in a process of its own with limited memory and time.

`python -m appliance.management.background.estimate_process MEMORY_BYTES SECONDS PARENT` reads the
question as one line of JSON, then the program's text if there is one, and writes the answer as
JSON: `{"report": ...}`, or `{"message": ..., "hint": ...}` where the question makes no sense. It
imports neither PyTorch nor gRPC, so that it starts in a quarter of a second.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from appliance.compiler.estimation import captured_program
from appliance.core.errors import UserError, WscError
from appliance.wafer.hardware import find_machine
from appliance.wafer.planner.planner import estimate
from appliance.wafer.planner.report import EstimateReport, report
from appliance.wafer.planner.transformer import Transformer, described_transformer
from appliance.wafer.timing.layer_timing import InputPipeline
from appliance.wafer.timing.step_program import StepProgram
from appliance.wire.requests.executions import parse_execution

_PR_SET_PDEATHSIG = 1
_REPORT = TypeAdapter(EstimateReport)

# `Any`: a question is JSON.
_Question = Mapping[str, Any]


def main() -> None:
    """Answer the question of standard input."""
    memory_bytes, seconds, parent = map(int, sys.argv[1:4])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before that
        sys.exit(1)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    question = json.loads(sys.stdin.buffer.readline())
    sys.stdout.buffer.write(answer(question, sys.stdin.buffer.read(), memory_bytes))


def answer(question: _Question, program: bytes, memory_bytes: int) -> bytes:
    """Return the answer to a question, as JSON."""
    try:
        found = _estimate(question, program)
    except MemoryError:
        return _refusal(
            UserError(
                f"The estimate takes more than the {memory_bytes:,} bytes that one may take.",
                hint="Use csctl estimate on your own machine, or ask about a smaller model.",
            )
        )
    except WscError as error:
        return _refusal(error)
    return b'{"report":%b}' % _REPORT.dump_json(found)


def _refusal(error: WscError) -> bytes:
    return json.dumps({"message": error.message, "hint": error.hint}).encode()


def _estimate(question: _Question, program: bytes) -> EstimateReport:
    machine, systems = find_machine(question["machine"]), question["systems"]
    inputs = InputPipeline(num_workers=question["workers"])
    execution = parse_execution(question["execution"])
    batch = question["batch"]
    model: Transformer | StepProgram
    if "model" in question:
        model = described_transformer(**question["model"])
    else:
        captured = captured_program(_text(program), name="program")
        model, batch = captured.step, batch or captured.batch_size
    return report(
        estimate(
            model,
            machine=machine,
            num_systems=systems,
            batch_size=batch,
            micro_batch=question["micro_batch"],
            tokens=question["tokens"],
            inputs=inputs,
            execution=execution,
        )
    )


def _text(program: bytes) -> str:
    try:
        return program.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"The program is no text: {error}.") from error


if __name__ == "__main__":
    main()
