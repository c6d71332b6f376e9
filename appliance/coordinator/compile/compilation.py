"""Compiles programs for the client, each content only once."""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Protocol

from appliance.coordinator.compile.artifacts import ArtifactStore
from appliance.coordinator.console import Console, Topic
from appliance.coordinator.options import CoordinatorOptions
from appliance.core.errors import UnschedulableError, UserError, WscError
from appliance.core.ids import Role
from appliance.core.plans.memory_by_role import PodMemory
from appliance.core.plans.micro_batches import UNLIMITED, WaferLimits, num_micro_batches
from appliance.core.plans.plan import Execution, Plan, Precision
from appliance.core.plans.shard_count import count_shards, may_have_shards
from appliance.core.plans.shard_plans import MAX_MESSAGES, most_shards
from appliance.files.beneath import Beneath
from appliance.wire.requests.cluster_details import GangSize, cluster_details
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
        pod_memory: Returns what a plan's pods take of memory.
    """

    compile_program: CompileProgram
    plan_key: PlanKey
    print_plan: Callable[[Plan], str]
    parse_plan: Callable[[str], Plan]
    pod_memory: Callable[[Plan], PodMemory]


class Compilation:
    """Answers compile requests of one job.

    Args:
        options: Precision, cluster size.
        artifacts: Where compiled programs are kept.
        console: Takes lines for the user.
        limits: What programs may use of each system's wafer.
        on_failure: Called with the sentence when a program cannot be compiled.
        wait_for_turn: Called with the number of systems before a program is compiled; returns when
            that may begin, or when what it is given says that the program is stored.
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
        wait_for_turn: Callable[[int, Callable[[], bool]], None] = lambda *_: None,
    ) -> None:
        self._wait_for_turn = wait_for_turn
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
        plan: Plan | None = None
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
        self._artifacts.drop_damaged(directory)
        self._wait_for_turn(gang.num_systems, lambda: self._artifacts.has(directory))
        if self._artifacts.has(directory):
            self._artifacts.take(directory)
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
            self._artifacts.store(
                directory,
                plan_text=compiler.print_plan(plan),
                program=text,
                memory=compiler.pod_memory(plan).to_json(),
            )
            logger.info(
                "Program compiled", extra={"key": key, "layer_steps": len(plan.layer_steps)}
            )
            self._console.write(
                Topic.COMPILE,
                f"Compiled {len(plan.layer_steps):,} layer steps and {len(plan.state):,} state "
                f"tensors for {gang.num_systems} systems.",
            )
            self._say_execution(plan, gang.num_systems)
        gang = replace(gang, num_shards=self._num_shards(request, directory, plan))
        return CompileResponse(
            cache_compile_dir=str(directory),
            cluster_details=cluster_details(gang, self._memory(directory, gang)),
            cross_compile_state=request.cross_compile_state,
        )

    def _memory(self, directory: Beneath, gang: GangSize) -> Mapping[Role, int]:
        """Return what each pod of a gang takes of memory; empty of a program that does not say."""
        text = self._artifacts.memory(directory)
        if not text:
            return {}
        memory = PodMemory.from_json(text)
        return memory.by_role(
            num_systems=gang.num_systems,
            num_shards=gang.num_shards,
            keep_weight_bytes=self._options.keep_weight_bytes,
        )

    def _num_shards(self, request: CompileRequest, directory: Beneath, plan: Plan | None) -> int:
        """Return how many weight pods the job gets; reads the plan only if it may be several."""
        allowed, nodes = max(0, request.max_wgt_servers), self._options.memory_nodes
        if not may_have_shards(allowed, nodes):
            return 1
        if plan is None:
            plan = self._compiler.parse_plan(self._artifacts.plan_text(str(directory)))
        found = count_shards(plan, allowed, nodes)
        num_shards, reason = most_shards(plan, found.num_shards), found.reason
        if num_shards < found.num_shards:
            reason = (
                f"The state is put on {num_shards} instead of {found.num_shards} MemoryX shards: "
                f"with {found.num_shards}, one of them would send the others more than the "
                f"{MAX_MESSAGES} messages of a step that there is room for."
            )
        if reason:
            self._console.write(Topic.COMPILE, reason)
        return num_shards

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
