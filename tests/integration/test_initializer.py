"""Deferred initial values are computed by the client's own weight program."""

import uuid

import numpy as np
import pytest

from appliance.coordinator.weights.initializer import DeferredTensor, Initializer
from appliance.core.errors import PodFailedError, UserError
from appliance.core.ids import JobId, Role
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.pods.pod_spec import PodSpec
from appliance.user_code.client_programs import user_environment
from appliance.wire.requests.cluster_details import GangSize
from protos.appliance.rtfx_pb2 import RtFxProto
from protos.cluster.cluster_pb2 import ExecuteJobRequest
from tests.support.pickled_loaders import client_site_packages

pytestmark = [pytest.mark.client, pytest.mark.slow]

UNIFORM = """graph():
  %0 : float = prim::Constant[value=-0.5]()
  %1 : float = prim::Constant[value=0.5]()
  %2 : Generator = prim::Constant[value=torch.Generator(device="cpu", seed=7)]()
  %3 : NoneType = prim::Constant()
  %4 : int[] = prim::Constant[value=[4, 3]]()
  %5 : int = prim::Constant[value=6]()
  %6 : Device = prim::Constant[value="cpu"]()
  %7 : Tensor = aten::empty(%4, %5, %3, %6, %3, %3)
  %8 : Float(4, 3) = aten::uniform(%7, %0, %1, %2)
  return (%8)
"""
WIRE = TensorType((4, 3), DType.F32)


@pytest.fixture
def initializer(tmp_path):
    spec = PodSpec(
        job=JobId(f"wsjob-{uuid.uuid4().hex[:8]}"),
        role=Role.COORDINATOR,
        index=0,
        runtime_dir=tmp_path / "r",
        work_dir=tmp_path / "w",
        management_address="",
    )
    spec.runtime_dir.mkdir()
    request = ExecuteJobRequest()
    request.user_sidecar_env.python_path = str(client_site_packages())
    gang = GangSize(num_systems=1, workers_per_system=1)
    made = Initializer(spec, request, gang, user_environment(request))
    yield made
    made.close()
    assert [path.name for path in spec.runtime_dir.iterdir()] == ["programs.key"]


def deferred(graph, shape=(4, 3)):
    tensor = DeferredTensor(tensor_name="w", shape=shape, dtype=RtFxProto.T_F32)
    tensor.graph_tensor.graph = graph
    return tensor


def test_a_graph_gives_the_same_values_each_time_and_a_bad_one_is_the_users_error(
    initializer,
) -> None:
    first = initializer.compute("w", deferred(UNIFORM), WIRE).copy()
    assert first.shape == (4, 3)
    assert np.abs(first).max() <= 0.5
    assert first.std() > 0.1
    with pytest.raises(UserError, match=r"initial value of 'w' could not be computed"):
        initializer.compute("w", deferred("graph():\n  return (%nothing)\n"), WIRE)
    np.testing.assert_array_equal(initializer.compute("w", deferred(UNIFORM), WIRE), first)


def test_a_program_that_cannot_start_is_named_with_the_end_of_its_log(tmp_path) -> None:
    site_packages = tmp_path / "lib" / "python3.11" / "site-packages"
    site_packages.mkdir(parents=True)
    python = tmp_path / "bin" / "python3.11"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho no such module >&2\nexit 3\n")
    python.chmod(0o755)
    spec = PodSpec(
        job=JobId(f"wsjob-{uuid.uuid4().hex[:8]}"),
        role=Role.COORDINATOR,
        index=0,
        runtime_dir=tmp_path / "r",
        work_dir=tmp_path / "w",
        management_address="",
    )
    spec.runtime_dir.mkdir()
    request = ExecuteJobRequest()
    request.user_sidecar_env.python_path = str(site_packages)
    gang = GangSize(num_systems=1, workers_per_system=1)
    made = Initializer(spec, request, gang, user_environment(request))
    with pytest.raises(PodFailedError, match=r"(?s)ended with exit code 3.*no such module"):
        made.compute("w", deferred(UNIFORM), WIRE)
    made.close()
