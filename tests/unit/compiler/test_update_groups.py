"""An update is cut into parts: what all need, then tensor by tensor in the order of need."""

from appliance.compiler.passes.update_groups import Uses, split_update
from appliance.core.plans.plan import Commit, Update
from tests.support.graphs import GraphBuilder

LARGE = 300  # elements on a side; more than the parts that are put together


class Program:
    """Weights with a moment each, clipped by the norm of all gradients."""

    def __init__(self, sides: list[int]) -> None:
        self.builder = builder = GraphBuilder()
        self.commits: list[Commit] = []
        gradients = [builder.state(side, side, name=f"g{i}") for i, side in enumerate(sides)]
        norms = [
            builder.op("Reshape", builder.op("L2Norm", g, dims=(), keepdim=False), shape=(1,))
            for g in gradients
        ]
        norm = builder.op("L2Norm", builder.op("Concat", *norms, axis=0), dims=(), keepdim=False)
        for index, (side, gradient) in enumerate(zip(sides, gradients, strict=True)):
            spread = builder.op("BroadcastInDim", norm, shape=(side, side), broadcast_dimensions=())
            clipped = builder.op("Div", gradient, spread)
            weight = builder.state(side, side, name=f"w{index}")
            moment = builder.state(side, side, name=f"m{index}")
            moved = builder.op("Add", moment, clipped)
            self.commits += [
                Commit(state=f"w{index}", value=builder.op("Sub", weight, moved)),
                Commit(state=f"m{index}", value=moved),
            ]

    def split(self, first_load: dict[str, int], wanted: tuple[str, ...] = ()) -> list[Update]:
        update = Update(after=7, nodes=tuple(self.builder.nodes), commits=tuple(self.commits))
        uses = Uses(types=self.builder.types, first_load=first_load, wanted=wanted)
        parts = list(split_update(update, uses))
        assert sorted(n.results[0] for p in parts for n in p.nodes) == sorted(
            node.results[0] for node in self.builder.nodes
        )
        assert all(part.after == 7 for part in parts)
        return parts


def committed(parts: list[Update]) -> list[list[str]]:
    return [[commit.state for commit in part.commits] for part in parts]


def test_what_all_need_comes_first_and_tensors_follow_in_the_order_of_load() -> None:
    parts = Program([LARGE, LARGE, LARGE]).split({"w2": 0, "w0": 1, "w1": 5})
    assert committed(parts) == [[], ["w2", "m2"], ["w0", "m0"], ["w1", "m1"]]
    assert {node.op for node in parts[0].nodes} == {"L2Norm", "Concat", "Reshape"}
    assert [node.op for node in parts[1].nodes] == ["BroadcastInDim", "Div", "Add", "Sub"]


def test_a_clipping_factor_spread_once_for_all_tensors_of_a_shape_does_not_tie_them() -> None:
    builder = GraphBuilder()
    norm = builder.op("L2Norm", builder.state(9, name="g"), dims=(), keepdim=False)
    spread = builder.op("BroadcastInDim", norm, shape=(LARGE, LARGE), broadcast_dimensions=())
    values = {
        name: builder.op("Mul", builder.state(LARGE, LARGE, name=name), spread)
        for name in ("w0", "w1")
    }
    update = Update(
        after=0,
        nodes=tuple(builder.nodes),
        commits=tuple(Commit(state=name, value=value) for name, value in values.items()),
    )
    uses = Uses(types=builder.types, first_load={"w0": 1, "w1": 0}, wanted=())
    parts = split_update(update, uses)
    assert committed(list(parts)) == [[], ["w1"], ["w0"]]
    assert [node.op for node in parts[0].nodes] == ["L2Norm", "BroadcastInDim"]


def test_small_tensors_loaded_together_are_one_part() -> None:
    parts = Program([4, 4, 4]).split({"w0": 2, "w1": 1, "w2": 2})
    assert committed(parts) == [[], ["w1", "m1"], ["w0", "m0", "w2", "m2"]]


def test_a_tensor_that_a_later_part_reads_is_overwritten_after_it() -> None:
    program = Program([LARGE, LARGE])
    builder = program.builder
    view = builder.op("Transpose", "w0", permutation=(1, 0))
    changed = builder.op("Add", program.commits.pop(2).value, view)
    program.commits.insert(2, Commit(state="w1", value=changed))
    parts = program.split({"w0": 0, "w1": 1})
    assert committed(parts)[-1] == ["w0"]
    assert committed(parts)[:-1] == [[], ["m0"], ["w1", "m1"]]


def test_what_others_read_is_computed_with_what_all_need() -> None:
    program = Program([LARGE, LARGE])
    parts = program.split({"w0": 0, "w1": 1}, wanted=(program.commits[3].value,))
    assert [node.op for node in parts[-1].nodes] == ["Sub"]


def test_an_update_of_one_tensor_stays_whole() -> None:
    builder = GraphBuilder()
    weight = builder.state(4, 4)
    value = builder.op("Sqrt", weight)
    update = Update(
        after=0, nodes=tuple(builder.nodes), commits=(Commit(state=weight, value=value),)
    )
    uses = Uses(types=builder.types, first_load={}, wanted=())
    assert split_update(update, uses) == (update,)
