"""Compiles programs for the client, once for each content."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from appliance.coordinator.artifacts import ArtifactStore
from appliance.coordinator.console import Console, Topic
from appliance.coordinator.options import CoordinatorOptions
from appliance.core.errors import UnschedulableError, UserError, WscError
from appliance.core.micro_batches import UNLIMITED, WaferLimits, num_micro_batches
from appliance.core.plan import Execution, Plan, Precision
from appliance.wire.cluster_details import GangSize, cluster_details
from protos.appliance.appliance_service_pb2 import CompileRequest, CompileResponse

logger = logging.getLogger(__name__)


class CompileProgram(Protocol):
    """Compiles a program."""

    def __call__(
        self,
        text: str,
        *,
        batch_size: int,
        precision: Precision,
        num_systems: int,
        limits: WaferLimits,
    ) -> Plan:
        """Return the plan of a program; raises `ProgramError`."""
        ...


class PlanKey(Protocol):
    """Names a program's plan by content."""

    def __call__(
        self,
        text: str,
        *,
        batch_size: int,
        precision: Precision,
        num_systems: int,
        limits: WaferLimits,
    ) -> str:
        """Return the key that the plan will have."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """The compiler, as the coordinator needs it.

    Attributes:
        compile_program: Returns the plan of a program.
        plan_key: Returns its key, without compiling it.
        print_plan: Returns a plan's text.
        parse_plan: Reads that text.
    """

    compile_program: CompileProgram
    plan_key: PlanKey
    print_plan: Callable[[Plan], str]
    parse_plan: Callable[[str], Plan]


class Compilation:
    """Answers compile requests of one job.

    Args:
        options: Precision, cluster size.
        artifacts: Where compiled programs are kept.
        console: Takes lines for the user.
        compiler: The compiler.
        limits: What programs may use of each system's wafer.
        on_failure: Called with the sentence when a program cannot be compiled.
    """

    def __init__(
        self,
        options: CoordinatorOptions,
        artifacts: ArtifactStore,
        console: Console,
        *,
        compiler: Compiler,
        limits: WaferLimits = UNLIMITED,
        on_failure: Callable[[str], None],
    ) -> None:
        self._options, self._artifacts, self._console = options, artifacts, console
        self._compiler, self._limits, self._on_failure = compiler, limits, on_failure
        self._lock = threading.Lock()
        self._answers: dict[str, Future[CompileResponse]] = {}

    def answer(self, request: CompileRequest) -> CompileResponse:
        """Compile a program, or answer from what is stored.

        A request that is repeated with the same `compile_id` waits for the first one's answer.

        Raises:
            WscError: The request or the program is at fault; the message names module and line.
        """
        mine: Future[CompileResponse] = Future()
        with self._lock:
            first = self._answers.setdefault(request.compile_id, mine)
        if first is not mine and request.compile_id:
            return first.result()
        try:
            mine.set_result(self._compile(request))
        except WscError as error:
            self._on_failure(str(error))
            mine.set_exception(error)
        except BaseException as error:
            mine.set_exception(error)
            raise
        return mine.result()

    def _compile(self, request: CompileRequest) -> CompileResponse:
        gang = self._checked_gang(request)
        text, batch_size = request.cirh_content, request.batch_size
        precision, compiler = self._options.precision, self._compiler
        key = compiler.plan_key(
            text,
            batch_size=batch_size,
            precision=precision,
            num_systems=gang.num_systems,
            limits=self._limits,
        )
        directory = self._artifacts.directory(request.compile_dir, key)
        if self._artifacts.has(directory):
            logger.info("Program found in the compile cache", extra={"key": key})
            self._console.write(Topic.COMPILE, f'Found existing cached compile with hash: "{key}"')
        else:
            plan = compiler.compile_program(
                text,
                batch_size=batch_size,
                precision=precision,
                num_systems=gang.num_systems,
                limits=self._limits,
            )
            self._artifacts.store(directory, plan_text=compiler.print_plan(plan), program=text)
            logger.info(
                "Program compiled", extra={"key": key, "layer_steps": len(plan.layer_steps)}
            )
            self._console.write(
                Topic.COMPILE,
                f"Compiled {len(plan.layer_steps):,} layer steps and {len(plan.state):,} state "
                f"tensors for {gang.num_systems} systems.",
            )
            self._say_execution(plan, gang.num_systems)
        return CompileResponse(
            cache_compile_dir=str(directory),
            cluster_details=cluster_details(gang),
            cross_compile_state=request.cross_compile_state,
        )

    def _say_execution(self, plan: Plan, num_systems: int) -> None:
        if plan.execution is Execution.PIPELINED:
            self._console.write(
                Topic.COMPILE,
                "Pipelined execution: all weights stay on the wafer, and the layer steps run side "
                "by side.",
            )
        count = num_micro_batches(plan, num_systems)
        if count > 1:
            self._console.write(
                Topic.COMPILE,
                f"Each system computes its share of {plan.batch_size} samples in {count} "
                f"micro-batches of at most {plan.micro_batch_size} samples and adds their sums.",
            )

    def _checked_gang(self, request: CompileRequest) -> GangSize:
        num_systems, available = max(1, request.num_csx), self._options.cluster_systems
        if available and num_systems > available:
            raise UnschedulableError(
                f"The job asks for {num_systems} systems; the cluster has {available}.",
                hint=f"Set num_csx to {available} or less.",
            )
        if request.batch_size < num_systems:
            raise UserError(
                f"A batch of {request.batch_size} samples cannot be shared by {num_systems} "
                "systems.",
                hint="Raise the batch size or lower num_csx.",
            )
        return GangSize(
            num_systems=num_systems, workers_per_system=max(1, request.num_workers_per_csx)
        )
