"""What is shown of a session's masks follows their counts, and is worked out for new ones only."""

from types import SimpleNamespace

import pytest

from appliance.coordinator.run.simulated.counted_masks import CountedMasks
from appliance.coordinator.run.simulated.sparse_session import mask_tensors
from appliance.core.cluster import readings
from appliance.core.ids import Role
from appliance.wafer.hardware import parse_machine
from protos.wsc.v1.management_pb2 import PodReport
from tests.support.masked_plans import CHANGING, masked_plan

PLAN = masked_plan(text=CHANGING["rigl"])
SIZES = {tensor.resource_name: tensor.type.num_elements for tensor in PLAN.state}


class Pods:
    """MemoryX, whose masks let a part through and have changed so often."""

    def __init__(self) -> None:
        self.kept, self.num_changes = 0.25, 0
        self.size = SimpleNamespace(num_systems=1, num_shards=1)

    def count_nonzeros(self, session, names):
        return {name: int(SIZES[name] * self.kept) for name in names}

    def reports(self):
        counted = {readings.MEMORYX_MASK_CHANGES: float(self.num_changes)}
        return [PodReport(role=Role.WEIGHT.value, readings=counted)]


@pytest.fixture
def pods():
    return Pods()


@pytest.fixture
def masks(pods, tmp_path):
    context = SimpleNamespace(spec=SimpleNamespace(work_dir=tmp_path), machine=parse_machine("cs2"))
    return CountedMasks(context, pods, pods)


@pytest.fixture
def session(masks):
    begun = SimpleNamespace(number=1, plan=PLAN)
    masks.forget(begun)
    masks.count(begun)
    return begun


@pytest.mark.parametrize(("kept", "is_anew"), [(0.25, False), (0.125, True)])
def test_changed_masks_that_let_as_many_through_change_nothing_that_is_shown(
    masks, session, pods, kept, is_anew
):
    before, progress = masks.latest, SimpleNamespace(masked_weights=masks.latest.weights)
    pods.kept, pods.num_changes = kept, 3
    masks.follow(progress)
    assert (masks.latest is not before) == is_anew
    kept_now = sum(int(SIZES[name] * kept) for name in mask_tensors(PLAN))
    assert progress.masked_weights.num_nonzeros == kept_now


def test_the_next_session_is_worked_out_though_its_masks_let_as_many_through(masks, session):
    before = masks.latest
    following = SimpleNamespace(number=2, plan=PLAN)
    masks.forget(following)
    assert masks.latest.weights is None
    masks.count(following)
    assert masks.latest.weights == before.weights
