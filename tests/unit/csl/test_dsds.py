"""DSDs and DSD operations: walks over memory, the fabric, DSRs, FIFOs, @map."""

import pytest

from appliance.csl.program import (
    Completion,
    DescriptorConstant,
    DsdOperation,
    Dsr,
    DsrKind,
    FabricInDescriptor,
    FabricOutDescriptor,
    FifoReference,
    LoadDsr,
    Map,
    MemoryDescriptor,
    Place,
)
from tests.support.csl import check_error, check_right, instructions

TOP = """
var a: [10]f32; var b: [4, 5]f32; var h: [6]u16; var s: f32;
const in_queue = @get_input_queue(2); const out_queue = @get_output_queue(3);
const c = @get_color(4);
const fin = @get_dsd(fabin_dsd, .{ .extent = 5, .input_queue = in_queue });
const fout = @get_dsd(fabout_dsd, .{ .extent = 5, .output_queue = out_queue, .fabric_color = c });
const ma = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{5} -> a[2 * i + 1] });
const done = @get_local_task_id(9);
task finish() void {}
comptime { @bind_local_task(finish, done); }
"""


def operations(body: str, top: str = "") -> list[object]:
    source = f"{TOP}{top}fn main() void {{ {body} }} comptime {{ @export_symbol(main); }}"
    code = check_right(source)
    return list(instructions(next(f for f in code.functions if f.name == "main")))


@pytest.mark.parametrize(
    ("access", "kind", "offset", "extents", "strides"),
    [
        ("|i|{10} -> a[i]", "mem1d_dsd", 0, (10,), (1,)),
        ("|i|{5} -> a[2 * i + 1]", "mem1d_dsd", 1, (5,), (2,)),
        ("|i|{5} -> a[9 - i]", "mem1d_dsd", 9, (5,), (-1,)),
        ("|i|{5} -> a[3]", "mem1d_dsd", 3, (5,), (0,)),
        ("|i|{4} -> b[i, i]", "mem1d_dsd", 0, (4,), (6,)),
        ("|i|{4} -> b[i, 2]", "mem1d_dsd", 2, (4,), (5,)),
        ("|i, j|{4, 5} -> b[i, j]", "mem4d_dsd", 0, (4, 5), (5, 1)),
        ("|i, j|{5, 4} -> b[j, i]", "mem4d_dsd", 0, (5, 4), (1, 5)),
    ],
)
def test_tensor_accesses_become_walks(
    access: str, kind: str, offset: int, extents: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    source = f"""{TOP}
const walk = @get_dsd({kind}, .{{ .tensor_access = {access} }});
fn main() void {{ @fmovs(walk, @as(f32, 1.0)); }} comptime {{ @export_symbol(main); }}"""
    code = check_right(source)
    (operation,) = instructions(next(f for f in code.functions if f.name == "main"))
    assert isinstance(operation, DsdOperation)
    operand = operation.operands[0]
    assert isinstance(operand, DescriptorConstant)
    found = operand.descriptor
    assert isinstance(found, MemoryDescriptor)
    assert (found.offset, found.extents, found.strides) == (offset, extents, strides)
    assert found.element_bytes == 4


def test_an_operation_names_its_operands() -> None:
    body = "@fmacs(ma, ma, fin, s, .{ .async = true, .activate = done, .index = 3 });"
    found = operations(body)[-1]
    assert isinstance(found, DsdOperation)
    assert found.op == "fmacs"
    assert isinstance(found.operands[2], DescriptorConstant)
    assert isinstance(found.operands[2].descriptor, FabricInDescriptor)
    assert found.settings.asynchronous
    assert found.settings.completion is Completion.ACTIVATE


def test_a_pointer_is_a_place_and_a_scalar_adapts() -> None:
    (found,) = operations("@fadds(&s, 2.0, ma);")
    assert isinstance(found, DsdOperation)
    assert isinstance(found.operands[0], Place)


def test_fabric_dsds_keep_what_they_are_told() -> None:
    top = """
const d = @get_dsd(fabout_dsd, .{
  .extent = 2, .output_queue = out_queue, .fabric_color = c, .control = true,
  .advance_switch = true, .zero = .{ .first_source = true },
});
"""
    (found,) = operations("@mov32(d, @as(u32, 7));", top)
    assert isinstance(found, DsdOperation)
    assert isinstance(found.operands[0], DescriptorConstant)
    descriptor = found.operands[0].descriptor
    assert descriptor == FabricOutDescriptor(
        queue=3, color=4, extent=2, control=True, advance_switch=True, zero_first_source=True
    )


def test_known_dsds_are_changed_at_compile_time() -> None:
    (found,) = operations("@fmovs(@increment_dsd_offset(@set_dsd_length(ma, 3), 2, f32), fin);")
    assert isinstance(found, DsdOperation)
    assert isinstance(found.operands[0], DescriptorConstant)
    descriptor = found.operands[0].descriptor
    assert isinstance(descriptor, MemoryDescriptor)
    start = descriptor.base + descriptor.offset * descriptor.element_bytes
    assert (descriptor.extents, start) == ((3,), 256 + 4 + 8)


@pytest.mark.parametrize(
    ("dsd", "step", "start"),
    [
        (".tensor_access = |i|{4} -> w[22 - 3 * i]", "-8, i32", 14 * 4),
        (".tensor_access = |i|{2} -> w[13 + 3 * i]", "-13, i32", 0),
        (".base_address = &w, .extent = 3, .stride = 3, .offset = 16", "-13, u32", 3 * 4),
        (".base_address = &w[20], .extent = 2", "-39, i16", 20 * 4 - 39 * 2),
        (".base_address = &w[20], .extent = 2", "2, i32", 22 * 4),
    ],
)
def test_a_dsd_that_moves_back_is_held_to_its_own_array(dsd: str, step: str, start: int) -> None:
    """An array lies before this one: there the moved DSD would not fit."""
    top = f"var before = @zeros([2]i32); var w = @zeros([24]i32); var n: i32 = 0;\n{TOP}"
    moved = f"@increment_dsd_offset(@get_dsd(mem1d_dsd, .{{ {dsd} }}), {step})"
    whole = "@get_dsd(mem1d_dsd, .{ .base_address = &w, .extent = 24 })"
    body = f"before[0] = n; @mov32({whole}, n); @mov32({moved}, n);"
    source = f"{top}\nfn main() void {{ {body} }}\ncomptime {{ @export_symbol(main); }}"
    code = check_right(source)
    walks = [i for f in code.functions for i in instructions(f) if isinstance(i, DsdOperation)]
    array, found = (_start(walk) for walk in walks)
    assert found == array + start


def _start(walk: DsdOperation) -> int:
    operand = walk.operands[0]
    assert isinstance(operand, DescriptorConstant)
    assert isinstance(operand.descriptor, MemoryDescriptor)
    return operand.descriptor.base + operand.descriptor.offset * operand.descriptor.element_bytes


def test_dsrs_are_loaded_and_used() -> None:
    top = "const dest = @get_dsr(dsr_dest, 1); const src = @get_dsr(dsr_src1, 2);"
    body = """
@load_to_dsr(dest, ma, .{ .save_address = true });
@load_to_dsr(src, fin, .{ .async = true, .activate = done });
@fmovs(dest, src, .{ .async = true });
"""
    first, second, third = operations(body, top)
    assert isinstance(first, LoadDsr)
    assert first.save_address
    assert isinstance(second, LoadDsr)
    assert second.settings.completion is Completion.ACTIVATE
    assert isinstance(third, DsdOperation)
    assert third.operands == (Dsr(DsrKind.DEST, 1), Dsr(DsrKind.SRC1, 2))


def test_fifos_are_buffers_in_memory() -> None:
    source = f"""{TOP}
var buffer: [32]u32;
const queue = @allocate_fifo(buffer, .{{ .activate_push = pushed }});
task pushed() void {{ @mov32(fout, queue, .{{ .async = true }}); }}
fn main() void {{ @mov32(queue, fin, .{{ .async = true }}); }}
comptime {{ @bind_local_task(pushed, @get_local_task_id(10)); @export_symbol(main); }}"""
    code = check_right(source)
    (fifo,) = code.fifos
    assert (fifo.name, fifo.num_elements, fifo.element_bytes) == ("queue", 32, 4)
    assert fifo.activate_push is not None
    (found,) = instructions(next(f for f in code.functions if f.name == "main"))
    assert isinstance(found, DsdOperation)
    assert found.operands[0] == FifoReference(0)


def test_map_calls_a_function_per_element() -> None:
    top = "fn scale(x: f32, k: f32) f32 { return x * k; }"
    (found,) = operations("@map(scale, ma, 2.0, ma);", top)
    assert isinstance(found, Map)
    assert [item.steps for item in found.inputs] == [True, False]
    assert isinstance(found.output, DescriptorConstant)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("$$@fmovs(ma);", "takes at least 2 arguments, got 1"),
        ("@fmovs($$fin, ma);", "a fabin_dsd cannot be a destination"),
        ("@fmovs(ma, $$fout);", "a fabout_dsd cannot be a source"),
        ("$$@fmovs(&s, s);", "needs a DSD among its operands"),
        ("$$@fmovs(ma, s, .{ .async = true });", "'.async' needs a fabric DSD or a DSR"),
        ("@fmovs(ma, fin, $$.{ .activate = done });", "'.activate' needs '.async = true'"),
        ("@fmovs(ma, fin, .{ .async = true, $$.activat = done });", "did you mean 'activate'?"),
        (
            "@fmovs(ma, fin, $$.{ .async = true, .activate = done, .unblock = done });",
            "either '.activate' or '.unblock'",
        ),
        (
            "@fmovs(ma, fin, $$.{ .async = true, .activate = c });",
            "'.activate' needs 'local_task_id'",
        ),
        ("@fadds(ma, ma, $$true);", "expected type 'f32'"),
        ("@fmovs($$s, ma);", "the destination of '@fmovs' is a DSD"),
        ("@fmovh($$&s, ma);", "needs a pointer to 'f16', got '*f32'"),
        ("_ = $$@get_dsd(fabin_dsd, .{ .extent = 3 });", "a fabin_dsd needs '.input_queue'"),
        ("_ = $$@get_dsd(fabin_dsd, .{ .input_queue = in_queue });", "needs '.extent'"),
        (
            "_ = $$@get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = out_queue });",
            "a fabout_dsd of wse2 needs '.fabric_color'",
        ),
        ("_ = @get_dsd(mem1d_dsd, $$.{ .extent = 3 });", "needs '.tensor_access', or"),
        (
            "_ = @get_dsd(mem1d_dsd, $$.{ .tensor_access = |i|{3} -> a[i], .extent = 3 });",
            "'.tensor_access' gives '.extent' already",
        ),
        (
            "_ = @get_dsd(mem1d_dsd, $$.{ .tensor_access = |i, j|{4, 5} -> b[i, j] });",
            "a mem1d_dsd has one dimension, got 2",
        ),
        (
            "_ = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> a[$$i * i] });",
            "a sum of multiples",
        ),
        (
            "_ = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> $$b[i] });",
            "takes 2 indices, got 1",
        ),
        (
            "_ = @get_dsd(mem1d_dsd, .{ .tensor_access = $$|i, j|{3} -> a[i] });",
            "2 variables and 1 extents",
        ),
        (
            "_ = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> a[$$missing] });",
            "undeclared identifier",
        ),
        ("_ = @get_dsd($$u16, .{});", "expected a DSD type"),
        ("_ = @set_dsd_base_addr($$fin, a);", "needs a memory DSD"),
        ("_ = @set_dsd_length($$s, 3);", "needs a DSD, got 'f32'"),
        ("_ = @increment_dsd_offset(ma, 1, $$void);", "is not the type of an element"),
        ("_ = @get_dsr(dsr_dest, $$48);", "DSR 48 is outside 0 to 47"),
        ("@load_to_dsr(@get_dsr(dsr_dest, 1), $$fin);", "a fabin_dsd cannot be in a 'dsr_dest'"),
        ("@load_to_dsr(@get_dsr(dsr_src1, 1), $$fout);", "it needs a 'dsr_dest'"),
        ("@fmovs($$@get_dsr(dsr_src1, 1), ma);", "a 'dsr_src1' cannot be a destination"),
        ("@fmovs(ma, $$@get_dsr(dsr_dest, 1));", "a 'dsr_dest' cannot be a source"),
        ("@map($$3, ma);", "'@map' needs a function"),
        ("$$@map(twice, ma);", "takes 1 inputs and a destination, got 1"),
        ("$$@map(twice, 1.0, &s);", "'@map' needs a DSD or DSR among its operands"),
        ("@map(twice, ma, $$s);", "the destination of '@map' is a DSD or a pointer"),
        ("@fmovs(ma, fin, $$.{ .async = true, .ut_id = 3 });", "'.ut_id' exists on wse3 only"),
    ],
)
def test_wrong_programs(body: str, text: str) -> None:
    top = TOP + "fn twice(x: f32) f32 { return 2.0 * x; }\n"
    check_error(f"{top}fn main() void {{ {body} }} comptime {{ @export_symbol(main); }}", text)


def test_dsds_are_for_the_code_of_pes() -> None:
    check_error("comptime { $$@mov32(1, 2); }", "'@mov32' is not allowed at compile time")


def test_wse3_reads_one_queue_per_operation() -> None:
    source = """
const one = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = @get_input_queue(1) });
const two = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = @get_input_queue(2) });
var s: f32;
fn main() void { $$@fadds(&s, one, two); }
comptime { @export_symbol(main); }
"""
    check_right(source.replace("$$", ""), architecture="wse2")
    check_error(source, "reads from one fabin_dsd at most", architecture="wse3")
