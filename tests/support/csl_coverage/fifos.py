# ruff: noqa: E501 - rows of a table
"""FIFOs in registers that the program names."""

from tests.support.csl_coverage.rows import Row

PAGE = "dsrs"
DATA = """
var B = @zeros([8]u32); var B2 = @zeros([8]u32); var X = [3]u32{ 7, 8, 9 }; var Y = @zeros([3]u32);
const x = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> X[i] }); const y = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> Y[i] });
const fd = @get_dsr(dsr_dest, 4); const fs = @get_dsr(dsr_src1, 4); const fx = @get_xdsr(1);
"""
FIFO = "const q = @allocate_fifo(B, .{ .dest = fd, .src = fs, .xdsr = fx });\n"
OUT = "out[0] = @as(i32, Y[0]); out[1] = @as(i32, Y[2]);"


def runs(says: str, body: str, top: str = "", out: tuple[int, ...] = (7, 9)) -> Row:
    """A program with a FIFO in DSRs 4."""
    return Row(page=PAGE, says=says, top=DATA + FIFO + top, body=body + OUT, out=out)


def wrong(says: str, refused: str, fifo: str = FIFO, body: str = "", top: str = "") -> Row:
    """A program that the compiler refuses."""
    return Row(page=PAGE, says=says, top=DATA + top + fifo, body=body, refused=refused)


ROWS = (
    runs("a FIFO is in the registers '.dest' and '.src'", "@mov32(fd, x); @mov32(y, fs);"),
    runs("its registers and its name are one FIFO", "@mov32(q, x); @mov32(y, fs);"),
    Row(
        page=PAGE,
        says="one whose action is a task that is bound behind it",
        top=DATA
        + "task told() void { out[2] = 5; sys.unblock_cmd_stream(); }\n"
        + "const q = @allocate_fifo(B, .{ .dest = fd, .src = fs, .xdsr = fx, .activate_push = told });\n"
        + "comptime { @bind_local_task(told, @get_local_task_id(10)); }",
        body="const ok = @mov32(y, fs); out[3] = if (ok) 1 else 2; @mov32(fd, x); @mov32(y, fs);" + OUT,
        out=(7, 9, 5, 2),
        finishes=False,
    ),
    Row(
        page=PAGE,
        says="one whose action is a task that an imported module binds",
        top=DATA
        + 'const io = @import_module("io.csl");\n'
        + "const q = @allocate_fifo(B, .{ .activate_push = io.told });",
        body="const ok = @mov32(y, q); @mov32(q, x); @mov32(y, q);" + OUT,
        out=(7, 9),
        files={
            "io.csl": "var n: u16 = 0; task told() void { n += 1; }\ncomptime { @bind_local_task(told, @get_local_task_id(10)); }"
        },
    ),
    runs(
        "a 'dsr_fifo_dest' and a 'dsr_fifo_src1' by their number",
        "@mov32(a, x); @mov32(y, b);",
        "const a = @get_dsr(dsr_fifo_dest, 4); const b = @get_dsr(dsr_fifo_src1, 4);",
    ),
    runs(
        "the same by the plain register",
        "@mov32(a, x); @mov32(y, b);",
        "const a = @get_dsr(dsr_fifo_dest, fd); const b = @get_dsr(dsr_fifo_src1, fs);",
    ),
    runs(
        "an operation on an empty one ends and is false",
        "out[2] = if (@mov32(y, b)) 1 else 2; out[3] = if (@mov32(fd, x)) 1 else 2;",
        "const b = @get_dsr(dsr_fifo_src1, fs);",
        (0, 0, 2, 1),
    ),
    runs(
        "it is the last source of two",
        "@mov32(fd, x); @fadds(z, z, fs); out[2] = @as(i32, @bitcast(u32, Z[2]));",
        "var Z = [3]f32{ 0.0, 0.0, 0.0 }; const z = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> Z[i] });",
        (0, 0, 9),
    ),
    wrong("the three registers are given together", "are given together",
          "const q = @allocate_fifo(B, $$.{ .dest = fd, .src = fs });\n", "@mov32(q, x);"),
    wrong("the DSRs have one number", "they have one number",
          "const q = @allocate_fifo(B, $$.{ .dest = fd, .src = @get_dsr(dsr_src1, 5), .xdsr = fx });\n", "@mov32(q, x);"),
    wrong("each is of its file", "'.src': expected type 'dsr_src1'",
          "const q = @allocate_fifo(B, $$.{ .dest = fd, .src = fd, .xdsr = fx });\n", "@mov32(q, x);"),
    wrong(
        "registers are of one FIFO", "DSR 4 holds another FIFO already",
        FIFO.replace(".{", "$$.{"), "@mov32(q2, x);",
        "const q2 = @allocate_fifo(B2, .{ .dest = fd, .src = fs, .xdsr = @get_xdsr(2) });\n",
    ),
    wrong("a 'dsr_fifo_dest' is not loaded", "'@allocate_fifo' puts the FIFO there",
          body="@load_to_dsr($$@get_dsr(dsr_fifo_dest, 4), x);"),
    wrong("nor is the plain register that holds a FIFO", "holds a FIFO; load another",
          body="$$@load_to_dsr(fd, x);"),
    wrong("a 'dsr_fifo_src1' holds a FIFO", "no FIFO is in DSR 5 of 'dsr_src1'",
          body="@mov32(y, $$b);", top="const b = @get_dsr(dsr_fifo_src1, 5);"),
    wrong("the type of a FIFO's register is that of the plain one", "'dsr_fifo_src1' is of a 'dsr_src1', not of a 'dsr_dest'",
          body="const b = @get_dsr(dsr_fifo_src1, $$fd);"),
)  # fmt: skip
