"""Ids, tasks, queues: ranges and bindings of both architectures."""

import pytest

from appliance.csl.program import SetBlocked, TargetKind, TaskKind
from tests.support.csl import check_error, check_right, instructions

TASK = "task t() void { } task d(x: u32) void { } const id = @get_local_task_id(9); "


@pytest.mark.parametrize(
    ("source", "text", "architecture"),
    [
        ("comptime { _ = @get_color($$33); }", "color 33 is outside 0 to 23", "wse2"),
        ("comptime { _ = @get_local_task_id($$31); }", "outside 0 to 30", "wse2"),
        ("comptime { _ = @get_local_task_id($$7); }", "outside 8 to 30, the range of wse3", "wse3"),
        ("comptime { _ = @get_control_task_id($$64); }", "outside 0 to 63", "wse2"),
        ("comptime { _ = @get_input_queue($$8); }", "input queue 8 is outside 0 to 7", "wse2"),
        ("comptime { _ = @get_output_queue($$6); }", "output queue 6 is outside 0 to 5", "wse2"),
        ("comptime { _ = @get_output_queue($$8); }", "output queue 8 is outside 0 to 7", "wse3"),
        ("comptime { _ = @get_color($$1.5); }", "needs an integer, got 'comptime_float'", "wse2"),
        (
            "comptime { _ = @get_data_task_id($$@get_input_queue(1)); }",
            "a data task id of wse2 needs a value of type 'color'",
            "wse2",
        ),
        (
            "comptime { _ = @get_data_task_id($$@get_color(1)); }",
            "a data task id of wse3 needs a value of type 'input_queue'",
            "wse3",
        ),
        (TASK + "comptime { @bind_local_task($$d, id); }", "cannot have parameters", "wse2"),
        (
            TASK + "comptime { @bind_data_task($$t, @get_data_task_id(@get_color(1))); }",
            "needs a parameter for its wavelet",
            "wse2",
        ),
        (TASK + "comptime { @bind_data_task(d, $$id); }", "expected type 'data_task_id'", "wse2"),
        (TASK + "comptime { @bind_local_task($$id, id); }", "needs a task", "wse2"),
        (
            TASK + "comptime { @bind_local_task(t, id); $$@bind_local_task(t, id); }",
            "local task id 9 is already bound to 't'",
            "wse2",
        ),
        (
            TASK + "comptime { @bind_local_task(t, id); "
            "$$@bind_data_task(d, @get_data_task_id(@get_color(9))); }",
            "wse2 has one table for both",
            "wse2",
        ),
        (
            TASK + "comptime { @bind_local_task(t, id); "
            "$$@bind_control_task(t, @get_control_task_id(9)); }",
            "wse3 has one table for both",
            "wse3",
        ),
        (
            "task d(a: u32, b: u16) void { } "
            "comptime { @bind_data_task($$d, @get_data_task_id(@get_color(1))); }",
            "take 48 bits; a wavelet has 32",
            "wse2",
        ),
        (
            TASK + "fn main() void { $$@bind_local_task(t, id); } "
            "comptime { @export_symbol(main); }",
            "is for top-level comptime blocks",
            "wse2",
        ),
        ("comptime { @activate($$@get_color(3)); }", "'@activate' needs 'local_task_id'", "wse2"),
        ("comptime { @block($$@get_input_queue(2)); }", "'@block' needs 'color'", "wse2"),
        ("comptime { @block($$@get_color(2)); }", "'@block' needs 'input_queue'", "wse3"),
        (TASK + "comptime { @activate($$t); }", "task 't' is not bound to an id", "wse2"),
        (
            "comptime { @initialize_queue($$@get_color(1)); }",
            "expected a queue, got 'color'",
            "wse2",
        ),
        (
            "comptime { $$@initialize_queue(@get_input_queue(1), .{}); }",
            "an input queue of wse2 needs '.color'",
            "wse2",
        ),
        (
            "comptime { $$@initialize_queue(@get_output_queue(1)); }",
            "an output queue of wse3 needs '.color'",
            "wse3",
        ),
        (
            "const q = @get_input_queue(1); const c = @get_color(1); comptime { "
            "@initialize_queue(q, .{ .color = c }); $$@initialize_queue(q, .{ .color = c }); }",
            "input_queue 1 is initialised twice",
            "wse2",
        ),
        (
            "comptime { @initialize_queue(@get_input_queue(1), .{ .color = c, $$.colour = c }); } "
            "const c = @get_color(1);",
            "has no option '.colour'; did you mean 'color'?",
            "wse2",
        ),
        (
            "fn main() void { $$@queue_flush(@get_output_queue(1)); } "
            "comptime { @export_symbol(main); }",
            "'@queue_flush' exists on wse3 only",
            "wse2",
        ),
        (
            "comptime { @initialize_queue(@get_input_queue(1), $$.{ .color = @get_color(32) }); }",
            "color 32 cannot be routed",
            "wse2",
        ),
    ],
)  # fmt: skip
def test_wrong_programs(source: str, text: str, architecture: str) -> None:
    check_error(source, text, architecture=architecture)


def test_comptime_blocks_set_the_state_at_start() -> None:
    source = (
        TASK
        + """
const c = @get_color(5);
comptime {
  @bind_local_task(t, id);
  @bind_data_task(d, @get_data_task_id(c));
  @activate(id);
  @block(c);
  @unblock(@get_color(6));
}
"""
    )
    code = check_right(source)
    assert [(task.kind, task.id) for task in code.tasks] == [
        (TaskKind.LOCAL, 9),
        (TaskKind.DATA, 5),
    ]
    assert [target.kind for target in code.active] == [TargetKind.LOCAL_TASK]
    assert [(blocked.kind, blocked.id) for blocked in code.blocked] == [(TargetKind.COLOR, 5)]
    assert [(item.kind, item.id) for item in code.unblocked] == [(TargetKind.COLOR, 6)]


def test_data_tasks_take_their_arguments_from_the_low_end() -> None:
    source = """
task pair(value: i16, index: u16) void { }
task number(value: f32) void { }
comptime {
  @bind_data_task(pair, @get_data_task_id(@get_color(1)));
  @bind_data_task(number, @get_data_task_id(@get_color(2)));
}
"""
    assert [task.argument_bits for task in check_right(source).tasks] == [(16, 16), (32,)]


def test_a_task_stands_for_the_id_that_it_is_bound_to() -> None:
    source = (
        TASK
        + """
fn main() void { @block(t); @unblock(id); }
comptime { @bind_local_task(t, id); @export_symbol(main); }
"""
    )
    main = next(f for f in check_right(source).functions if f.name == "main")
    first, second = instructions(main)
    assert isinstance(first, SetBlocked)
    assert isinstance(second, SetBlocked)
    assert (first.target, first.blocked) == (second.target, True)
    assert not second.blocked


def test_a_queue_of_the_old_dialect_gets_its_color_from_the_dsd() -> None:
    source = """
const d = @get_dsd(fabin_dsd, .{
  .extent = 3, .fabric_color = @get_color(7), .input_queue = @get_input_queue(2),
});
var x: f32;
fn main() void { @fmovs(&x, d); }
comptime { @export_symbol(main); }
"""
    (queue,) = check_right(source).queues
    assert (queue.queue, queue.color, queue.output, queue.automatic) == (2, 7, False, True)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_control_tasks_have_a_table_of_their_own_if_asked(at: int) -> None:
    calls = ["@bind_local_task(t, id);", "@bind_control_task(t, @get_control_task_id(9));"]
    calls.insert(at, "@set_control_task_table(.{ .instructions = 8, .stride = 4 });")
    check_right(f"{TASK} comptime {{ {' '.join(calls)} }}", architecture="wse3")


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ("", ""),
        *((f".instructions = {number}", "") for number in (2, 4, 8)),
        *(
            (f".instructions = {number}", f"is 2, 4 or 8, got {number}")
            for number in (0, 1, 3, 5, 6, 7, 9, 16)
        ),
        *((f".stride = {number}", "") for number in (1, 2, 7)),
        *((f".stride = {number}", f"is 1 to 7, got {number}") for number in (0, 8)),
    ],
)
def test_the_table_of_control_tasks_has_a_size_and_a_stride(settings: str, refused: str) -> None:
    given = f".{{ {settings} }}" if settings else ""
    source = f"{TASK} comptime {{ @set_control_task_table($${given}); }}"
    if refused:
        check_error(source, refused, architecture="wse3")
    else:
        check_right(source.replace("$$", ""), architecture="wse3")
