"""Loads of weights that are held whole, gathered by the mask as it is."""

import dataclasses

import numpy as np
import pytest
import torch

from appliance.core.ir.tensors import TensorType
from appliance.core.plans.sparse.as_executed import matrix_shapes
from appliance.core.plans.sparse.gathered import gathered_after
from appliance.core.sparsity.encodings import Encoding
from appliance.core.sparsity.mask_patterns import unpack
from tests.support.masked_plans import CHANGING, masked_plan
from workers.memoryx.gathered_loads import GatheredLoads

SMALL = masked_plan(text=CHANGING["gmp"])
SPARSE = SMALL.sparse[0]
WIDE = {
    name: TensorType((4, 4096), SMALL.types[name].dtype)
    for name in (SPARSE.weight, SPARSE.mask, *SPARSE.loads)
}
PLAN = dataclasses.replace(SMALL, types={**SMALL.types, **WIDE})
SHAPE = matrix_shapes(PLAN)[SPARSE.weight]


class Store:
    """State, loads and patterns of a plan, as MemoryX lays them out."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        types, sparse = PLAN.types, PLAN.sparse
        self.state = {each.mask: torch.ones(types[each.mask].shape).bool() for each in sparse}
        for each in sparse:
            self.state[each.weight] = torch.randn(types[each.weight].shape, generator=generator)
        loads = [name for each in sparse for name in each.loads]
        self.computed = {name: torch.full(types[name].shape, 7.0) for name in loads}
        self.patterns = {
            weight: np.zeros(-(-shape.num_elements // 8), np.uint8)
            for weight, shape in matrix_shapes(PLAN).items()
        }
        self.loads = GatheredLoads(
            PLAN, state=self.state, places=self.computed, patterns=self.patterns
        )

    def draw_mask(self, density):
        mask = self.state[SPARSE.mask]
        mask.copy_(torch.rand(mask.shape, generator=torch.Generator().manual_seed(1)) < density)

    def product(self):
        return self.state[SPARSE.weight] * self.state[SPARSE.mask]

    def sent(self):
        """Return the weight as whoever reads the slot makes it whole."""
        how = self.loads.held[SPARSE.weight]
        values = self.computed[SPARSE.loads[0]].reshape(-1)[: how.num_values]
        if how.encoding is Encoding.DENSE:
            return values.view(self.state[SPARSE.weight].shape)
        packed = self.patterns[SPARSE.weight][: how.pattern_bytes]
        pattern = unpack(packed, SHAPE, how.encoding, how.num_values)
        found = np.zeros(SHAPE.num_elements, np.float32)
        found[pattern.places()] = values.numpy()
        return torch.from_numpy(found).view(self.state[SPARSE.weight].shape)


@pytest.mark.parametrize(
    ("density", "encoding"), [(0.01, Encoding.ROWS), (0.3, Encoding.BITMAP), (1, Encoding.DENSE)]
)
def test_what_is_gathered_is_the_product_with_the_mask(density, encoding):
    store = Store()
    store.draw_mask(density)
    store.loads.gather_all()
    assert store.loads.held[SPARSE.weight].encoding is encoding
    torch.testing.assert_close(store.sent(), store.product(), rtol=0, atol=0)


def test_new_values_and_a_new_mask_are_gathered_after_the_update_that_writes_them():
    store = Store()
    store.draw_mask(0.3)
    store.loads.gather_all()
    (update,) = (index for index, due in gathered_after(PLAN).items() if SPARSE in due)
    store.state[SPARSE.weight].mul_(2)
    store.loads.gather_after(update)
    torch.testing.assert_close(store.sent(), store.product(), rtol=0, atol=0)
    for density in (0.6, 1.0, 0.02, 0.0):
        store.draw_mask(density)
        before = store.sent().clone()
        store.loads.gather_after(update - 1)
        torch.testing.assert_close(store.sent(), before, rtol=0, atol=0)
        store.loads.gather_after(update)
        torch.testing.assert_close(store.sent(), store.product(), rtol=0, atol=0)
        assert store.loads.num_nonzeros(SPARSE.mask) == store.state[SPARSE.mask].sum()
    assert store.loads.num_mask_changes == 4


def test_a_gradient_that_came_by_its_nonzeros_is_whole_for_the_update_part():
    store = Store()
    store.draw_mask(0.3)
    store.loads.gather_all()
    gradient = torch.rand(store.state[SPARSE.weight].shape)
    mask = store.state[SPARSE.mask]
    found = store.loads.whole(SPARSE.weight, gradient[mask])
    torch.testing.assert_close(found, gradient * mask, rtol=0, atol=0)
