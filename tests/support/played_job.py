"""A coordinator in this process, with management and all other pods of the job played."""

import contextlib
import os
import pickle
import queue
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np

from appliance.compiler.pod_memory import pod_memory
from appliance.coordinator.compile.compilation import Compiler
from appliance.coordinator.process import Coordinator
from appliance.core.clock import SystemClock
from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.run import RunSchedule
from appliance.core.errors import NotFoundError, ProgramError
from appliance.core.ids import JobId, Role, new_authority, pod_name
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.plan import InputTensor, Output, Plan, Precision, StateTensor
from appliance.core.pods.pod_options import CoordinatorPodOptions
from appliance.core.pods.pod_spec import PodSpec, control_address, stream_address
from appliance.streams.shared_memory import serve_ring
from appliance.streams.slot_layout import SlotLayout
from appliance.streams.store import StoreServer
from appliance.streams.stream_topology import (
    OUTPUTS,
    STATE_SEGMENT,
    STEP_FIELD,
    output_layout,
    persistent_segment,
    snapshot_segment,
    state_layout,
    store,
)
from protos.appliance import appliance_service_pb2_grpc
from protos.cluster.cluster_pb2 import ExecuteJobRequest
from protos.wsc.v1 import management_pb2, management_pb2_grpc, pods_pb2, pods_pb2_grpc

SECONDS = 120.0
JOB = JobId("wsjob-played")
AUTHORITY = new_authority(JOB)
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def toy_plan(key="cs_toy"):
    """Two state tensors, one input, one output."""
    weight = TensorType((2, 3), DType.F32)
    count = TensorType((), DType.I64)
    loss = TensorType((), DType.F32)
    batch = TensorType((4, 3), DType.F32)
    return Plan(
        key=key,
        batch_size=4,
        precision=Precision.F32,
        state=(
            StateTensor(resource_name="state.w", value="w", type=weight, wire_dtype=DType.F16),
            StateTensor(resource_name="state.n", value="n", type=count, wire_dtype=DType.I64),
        ),
        inputs=(InputTensor(input_name="input_0", value="x", type=batch, wire_dtype=DType.F32),),
        outputs=(Output(output_name="output_loss", value="loss", type=loss, wire_dtype=DType.F32),),
        wafer_constants=(),
        layer_steps=(),
        update_constants=(),
        updates=(),
        sharded={"x": 0},
        types={"w": weight, "n": count, "x": batch, "loss": loss},
    )


def compile_toy(text, *, batch_size, precision, num_systems, limits):
    if "func @graph" not in text:
        raise ProgramError("The program has no function @graph.", hint="Send a traced step.")
    return toy_plan()


TOY_COMPILER = Compiler(
    compile_program=compile_toy,
    plan_key=lambda text, **_: f"cs_{zlib.crc32(text.encode()):x}",
    print_plan=lambda plan: pickle.dumps(plan).hex(),
    parse_plan=lambda text: pickle.loads(bytes.fromhex(text)),
    pod_memory=pod_memory,
)


class PlayedManagement(management_pb2_grpc.ManagementServicer):
    """Keeps what the coordinator reports."""

    def __init__(self):
        self.registered = queue.Queue()
        self.reports = []
        self._changed = threading.Condition()
        self.may_compile = threading.Event()
        self.may_compile.set()

    def RequestCompile(self, request, context):
        if request.is_cached or self.may_compile.wait(min(request.wait_seconds, 0.2)):
            return management_pb2.RequestCompileReply(is_granted=True)
        return management_pb2.RequestCompileReply(reason="job is queueing.", position=3)

    def RegisterCoordinator(self, request, context):
        self.registered.put(request)
        return management_pb2.RegisterCoordinatorReply()

    def ReportJob(self, request, context):
        with self._changed:
            self.reports.append(request)
            self._changed.notify_all()
        return management_pb2.JobReportReply()

    def wait_for_event(self, reason):
        def find():
            events = [event for report in self.reports for event in report.events]
            return [event for event in events if event.reason == reason]

        with self._changed:
            assert self._changed.wait_for(find, SECONDS), f"no event {reason}"
        return find()[0]

    def wait_for_phase(self, phase):
        def find():
            return [report for report in self.reports if report.phase == phase]

        with self._changed:
            assert self._changed.wait_for(find, SECONDS), f"no report of {phase}"
        return find()[0]


class PlayedPod(
    pods_pb2_grpc.PodServicer, pods_pb2_grpc.MemoryXServicer, pods_pb2_grpc.KernelsServicer
):
    """Any pod: answers everything; the weight pod also has a store and makes outputs.

    Output `output_loss` of step t is t + 0.5; a step adds 1 to every state tensor. With `hold`
    set, the first step is the last one.
    """

    def __init__(self, spec):
        self.spec = spec
        self.calls = []
        self.load_error = None
        self.kernel_calls = []
        self.listed = pods_pb2.ListProblemsReply()
        self.persistent = {}
        self._snapshots = set()
        self.stopped = threading.Event()
        self.hold = threading.Event()
        self._store = self._ring = self._plan = self._thread = None
        self.server = grpc.server(ThreadPoolExecutor(8), options=_OPTIONS)
        pods_pb2_grpc.add_PodServicer_to_server(self, self.server)
        pods_pb2_grpc.add_MemoryXServicer_to_server(self, self.server)
        pods_pb2_grpc.add_InputWorkerServicer_to_server(self, self.server)
        pods_pb2_grpc.add_KernelsServicer_to_server(self, self.server)
        self.server.add_insecure_port(spec.control_address())
        self.server.start()
        self.channel = grpc.insecure_channel(control_address(spec.runtime_dir, Role.COORDINATOR, 0))
        self.coordinator = pods_pb2_grpc.CoordinatorStub(self.channel)
        self.registration = pods_pb2.RegisterRequest(
            pod=spec.name,
            role=spec.role.value,
            index=spec.index,
            pid=os.getpid(),
            control_address=spec.control_address(),
        )
        self.coordinator.Register(self.registration, wait_for_ready=True)

    @property
    def is_weight(self):
        return self.spec.role is Role.WEIGHT

    def Load(self, request, context):
        self.calls.append(request)
        if self.load_error is not None:
            context.abort(*self.load_error)
        if self.is_weight:
            self._close_streams()
            self._plan = TOY_COMPILER.parse_plan(request.plan.decode())
            runtime_dir, session = self.spec.runtime_dir, request.session
            self._store = StoreServer(stream_address(runtime_dir, session, store(0)))
            self.state = self._store.add_segment(STATE_SEGMENT, state_layout(self._plan))
            self._ring = serve_ring(
                stream_address(runtime_dir, session, OUTPUTS),
                name=OUTPUTS,
                num_slots=2,
                slot_bytes=output_layout(self._plan).num_bytes,
                num_readers=1,
            )
        return pods_pb2.LoadReply()

    def ListProblems(self, request, context):
        self.kernel_calls.append(request)
        return self.listed

    def MeasureProblems(self, request, context):
        self.kernel_calls.append(request)
        timings = [
            pods_pb2.ProblemTiming(
                problem=problem,
                by_rule="pytorch",
                chosen="openblas",
                seconds={"pytorch": 2.0, "openblas": 1.0},
            )
            for problem in request.problems
        ]
        return pods_pb2.MeasureProblemsReply(timings=timings)

    def UseImplementations(self, request, context):
        self.kernel_calls.append(request)
        return pods_pb2.UseImplementationsReply()

    def Start(self, request, context):
        self.calls.append(request)
        if self.is_weight:
            schedule = RunSchedule(
                num_steps=request.num_steps,
                output_interval=request.output_interval,
                checkpoint_steps=frozenset(request.checkpoint_steps),
            )
            self._thread = threading.Thread(target=self._steps, args=(schedule,), daemon=True)
            self._thread.start()
        return pods_pb2.StartReply()

    def Finish(self, request, context):
        self.calls.append(request)
        if self.is_weight and request.wait_for_steps:
            self._thread.join(SECONDS)
        return pods_pb2.FinishReply()

    def Stop(self, request, context):
        self.stopped.set()
        return pods_pb2.StopReply()

    def CommitIngest(self, request, context):
        self.calls.append(request)
        return pods_pb2.CommitIngestReply()

    def DataCheckpoint(self, request, context):
        state = f"{self.spec.index}:{request.step}"
        return pods_pb2.DataCheckpointReply(serialized_states=[state])

    def MoveToPersistent(self, request, context):
        views = state_layout(self._plan).views(self.state)
        value = {t.resource_name: t.value for t in self._plan.state}[request.resource_name]
        self.persistent[request.persistent_id] = np.array(views[value])
        return pods_pb2.PersistentReply()

    def CarryOver(self, request, context):
        views = state_layout(self._plan).views(self.state)
        value = {t.resource_name: t.value for t in self._plan.state}[request.resource_name]
        views[value][...] = self.persistent[request.persistent_id]
        return pods_pb2.PersistentReply()

    def DeletePersistent(self, request, context):
        del self.persistent[request.persistent_id]
        return pods_pb2.PersistentReply()

    def ExposePersistent(self, request, context):
        value = self.persistent[request.persistent_id]
        dtype = DType.F32 if value.dtype == np.float32 else DType.I64
        layout = SlotLayout.of([("it", TensorType(value.shape, dtype))])
        segment = persistent_segment(request.persistent_id)
        with contextlib.suppress(NotFoundError):
            self._store.remove_segment(segment)
        layout.items[0].view(self._store.add_segment(segment, layout))[...] = value
        return pods_pb2.PersistentReply(dtype=dtype.value, shape=value.shape)

    def LocateSnapshot(self, request, context):
        if request.step not in self._snapshots:
            context.abort(grpc.StatusCode.NOT_FOUND, f"No state after step {request.step}.")
        return pods_pb2.LocateSnapshotReply(segment=snapshot_segment(request.step))

    def ReleaseSnapshot(self, request, context):
        self.calls.append(request)
        self._store.remove_segment(snapshot_segment(request.step))
        return pods_pb2.ReleaseSnapshotReply()

    def fail(self, message, *, is_user_error=False, detail=""):
        """Begin to report that the pod cannot go on; return the call."""
        return self.coordinator.ReportFailure.future(
            pods_pb2.FailureReport(
                pod=self.spec.name, message=message, detail=detail, is_user_error=is_user_error
            )
        )

    def register(self, pid):
        """Register again, as another process."""
        self.registration.pid = pid
        self.coordinator.Register(self.registration)

    def beat(self):
        self.coordinator.Heartbeat(pods_pb2.HeartbeatRequest(pod=self.spec.name))

    def close(self):
        self._close_streams()
        self.channel.close()
        self.server.stop(None).wait()

    def _steps(self, schedule):
        layout, state = output_layout(self._plan), state_layout(self._plan)
        views = state.views(self.state)
        for step in range(schedule.num_steps):
            for view in views.values():
                view[...] += 1
            if schedule.keeps_outputs(step):
                slot = layout.views(self._ring.reserve())
                slot[STEP_FIELD][...] = step
                slot["output_loss"][...] = step + 0.5
                self._ring.publish()
            if schedule.keeps_state(step):
                memory = self._store.add_segment(snapshot_segment(step + 1), state)
                memory[:] = self.state
                self._snapshots.add(step + 1)
            if self.hold.is_set():
                self.stopped.wait(SECONDS)
                return
        self._ring.end()

    def _close_streams(self):
        if self._ring is not None:
            self._ring.close()
            self._store.close()
            self._thread = None


class PlayedJob:
    """One job: a real coordinator, everything else played."""

    def __init__(self, directory, *, job_type="execute", num_systems=1, workers=1, request=None):
        self.runtime_dir, self.work_dir = directory / "r", directory / "w"
        self.runtime_dir.mkdir()
        self.work_dir.mkdir()
        self.management = PlayedManagement()
        self._server = grpc.server(ThreadPoolExecutor(8))
        management_pb2_grpc.add_ManagementServicer_to_server(self.management, self._server)
        target = f"unix:{self.runtime_dir}/management"
        self._server.add_insecure_port(target)
        self._server.start()
        request_path = self.work_dir / "request.bin"
        request_path.write_bytes((request or ExecuteJobRequest()).SerializeToString())
        self.spec = PodSpec(
            job=JOB,
            role=Role.COORDINATOR,
            index=0,
            runtime_dir=self.runtime_dir,
            work_dir=self.work_dir,
            management_address=target,
            options=CoordinatorPodOptions(
                job_type=JobType(job_type),
                num_systems=num_systems,
                workers_per_system=workers,
                request_path=request_path,
                compile_root=directory / "compiled",
                kernel_tables=directory / "kernels",
                service_authority=AUTHORITY,
                client_githash="abc123",
                cluster_systems=2,
            ),
        )
        self.coordinator = Coordinator(self.spec, TOY_COMPILER, SystemClock())
        self._thread = threading.Thread(target=self.coordinator.run)
        self._thread.start()
        self.address = self.management.registered.get(timeout=SECONDS).service_address
        options = [*_OPTIONS, ("grpc.default_authority", AUTHORITY)]
        self.channel = grpc.insecure_channel(self.address, options=options)
        self.client = appliance_service_pb2_grpc.ApplianceStub(self.channel)
        self.control_channel = grpc.insecure_channel(self.spec.control_address())
        self.control = management_pb2_grpc.JobControlStub(self.control_channel)
        self.pods = {}
        if job_type == "execute":
            self._play_pods(num_systems, workers)

    def _play_pods(self, num_systems, workers):
        members = [(Role.WEIGHT, 0), (Role.BROADCASTREDUCE, 0)]
        members += [(Role.CHIEF, i) for i in range(num_systems)]
        members += [(Role.ACTIVATION, i) for i in range(num_systems)]
        members += [(Role.WORKER, i) for i in range(num_systems * workers)]
        for role, index in members:
            spec = PodSpec(
                job=JOB,
                role=role,
                index=index,
                runtime_dir=self.runtime_dir,
                work_dir=self.work_dir,
                management_address="",
            )
            self.pods[role, index] = PlayedPod(spec)
        self._beating = threading.Event()
        self._beats = threading.Thread(target=self._beat, daemon=True)
        self.silent = set()
        self._beats.start()

    def _beat(self):
        while not self._beating.wait(0.5):
            for key, pod in self.pods.items():
                if key not in self.silent:
                    with contextlib.suppress(grpc.RpcError):
                        pod.beat()

    @property
    def weight(self):
        return self.pods[Role.WEIGHT, 0]

    def name(self, role, index=0):
        return pod_name(JOB, role, index)

    def close(self):
        self.coordinator.stop("test ends")
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        if self.pods:
            self._beating.set()
            self._beats.join()
        for pod in self.pods.values():
            pod.close()
        self.control_channel.close()
        self.channel.close()
        self._server.stop(None).wait()
