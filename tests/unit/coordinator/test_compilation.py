"""What the compiler tells the client about the program that it has compiled."""

from appliance.coordinator.compile.artifacts import ArtifactStore
from appliance.coordinator.compile.compilation import Compilation
from appliance.coordinator.console import Console, Topic
from appliance.coordinator.options import CoordinatorOptions
from appliance.core.cluster.jobs import JobType
from appliance.core.ids import JobId, Role
from appliance.core.pods.pod_options import CoordinatorPodOptions
from appliance.core.pods.pod_spec import PodSpec
from appliance.wire.requests.cluster_details import gang_size
from protos.appliance.appliance_service_pb2 import CompileRequest
from tests.support.deep_plans import chained_plan
from tests.support.played_job import TOY_COMPILER


def test_a_program_that_takes_too_many_messages_gets_fewer_shards_and_says_so(tmp_path):
    told = CoordinatorPodOptions(
        job_type=JobType.COMPILE,
        request_path=tmp_path / "request",
        compile_root=tmp_path,
        service_authority="job.test",
    )
    spec = PodSpec(
        job=JobId("wsjob-a"),
        role=Role.COORDINATOR,
        index=0,
        runtime_dir=tmp_path,
        work_dir=tmp_path,
        management_address="",
        options=told,
    )
    options = CoordinatorOptions.of(spec)
    console, failures = Console(), []
    artifacts = ArtifactStore(tmp_path)
    text = TOY_COMPILER.print_plan(chained_plan(140))
    request = CompileRequest(
        cirh_content="chained", batch_size=4, num_csx=1, compile_dir="models", max_wgt_servers=2
    )
    directory = artifacts.directory("models", TOY_COMPILER.plan_key("chained"))
    artifacts.store(directory, plan_text=text, program="chained")
    compilation = Compilation(
        options, artifacts, console, compiler=TOY_COMPILER, on_failure=failures.append
    )
    details = compilation.answer(request).cluster_details
    assert gang_size(details).num_shards == 1
    lines = [console.next_line(Topic.COMPILE, 0.0).msg for _ in range(2)]
    assert lines[1] == (
        "The state is put on 1 instead of 2 MemoryX shards: with 2, one of them would send the "
        "others more than the 62 messages of a step that there is room for."
    )
    assert console.next_line(Topic.COMPILE, 0.0) is None
    assert not failures
