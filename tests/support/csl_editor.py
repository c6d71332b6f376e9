"""A workspace of files as an editor has them open, and marks in their text."""

from pathlib import Path

from appliance.sdk.language_server.workspace import Workspace

ROOT = "/program"
"""No such directory is looked at: all files are open."""

COMMAND = (
    "cslc layout.csl --arch=wse2 --fabric-dims=11,4 --fabric-offsets=4,1 --params=n:8 --memcpy "
    "--channels=1"
)

LAYOUT = """param n: u16;
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 2, .height = 1 });
layout {
  @set_rectangle(2, 1);
  for (@range(u16, 2)) |x| {
    @set_tile_code(x, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(x), .n = n, .x = x });
  }
  @export_name("y", [*]f32, true);
  @export_name("main", fn () void);
}
"""
PE = """// What memcpy needs.
param memcpy_params;
param n: u16;
param x: u16;
const memcpy = @import_module("<memcpy/memcpy>", memcpy_params);
const math = @import_module("<math>");
const tools = @import_module("tools.csl", .{ .size = n });
const Pair = struct { left: u16, right: f32 };
const twice = 2 * n;
var y = @zeros([n]f32);
const y_host: [*]f32 = &y;
const y_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{n} -> y[i] });

// Adds one to each element.
fn add(by: f32) void {
  var pair = Pair{ .left = x, .right = by };
  @fadds(y_dsd, y_dsd, pair.right);
  y[0] = tools.half(math.sqrt(y[0]));
}

fn main() void {
  add(1.0);
  memcpy.unblock_cmd_stream();
}

comptime {
  @export_symbol(y_host, "y");
  @export_symbol(main);
}
"""
TOOLS = """param size: u16;
// Half of it.
fn half(value: f32) f32 {
  return 0.5 * value;
}
"""
FILES = {"layout.csl": LAYOUT, "pe.csl": PE, "tools.csl": TOOLS}


def path_in(name: str) -> str:
    return f"{ROOT}/{name}"


def opened(
    files: dict[str, str] | None = None, commands: tuple[str, ...] = (COMMAND,)
) -> Workspace:
    """A workspace in which these files are open, `pe.csl` analysed if it is there."""
    texts = {path_in(name): text for name, text in (FILES if files is None else files).items()}
    workspace = Workspace(root=Path(ROOT), commands=commands, texts=texts)
    if path_in("pe.csl") in texts:
        workspace.analyse(path_in("pe.csl"))
    return workspace


def at(text: str, mark: str, nth: int = 0) -> int:
    """The offset of the nth occurrence of a mark, behind `^` in it if there is one."""
    shown = mark.replace("^", "")
    start = -1
    for _ in range(nth + 1):
        start = text.index(shown, start + 1)
    return start + max(mark.find("^"), 0)
