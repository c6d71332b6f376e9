"""`python -m appliance.coordinator --spec FILE`: the coordinator of a job.

Options: see `appliance.coordinator.options`.
"""

import sys

from appliance.compiler.pipeline import compile_program, plan_key
from appliance.compiler.pod_memory import pod_memory
from appliance.coordinator.compile.compilation import Compiler
from appliance.coordinator.process import run_coordinator
from appliance.core.plans.plan_text import parse_plan, print_plan
from appliance.core.pods.pod_spec import PodSpec
from appliance.pods.shell import pod_main

COMPILER = Compiler(
    compile_program=compile_program,
    plan_key=plan_key,
    print_plan=print_plan,
    parse_plan=parse_plan,
    pod_memory=pod_memory,
)


def run_pod(spec: PodSpec) -> int:
    """Be the pod until told to stop; return the process's exit code."""
    return run_coordinator(spec, COMPILER)


def main() -> int:
    """Run from the command line."""
    return pod_main(None, run_pod, program="python -m appliance.coordinator")


if __name__ == "__main__":
    sys.exit(main())
