"""What is no number keeps its sign and payload, however it enters a program, and in the file."""

import pytest

from appliance.csl.program import decode, encode
from tests.support.csl import program_of
from tests.support.csl_runs import LAYOUT, PE, outcome

PATTERNS = {
    "f32": (0x7F800001, 0xFF800001, 0x7FC00000, 0xFFC00123, 0x7FBFFFFF, 0xFFFFFFFF),
    "f16": (0x7C01, 0xFC01, 0x7E00, 0xFE01, 0x7DFF, 0xFFFF),
    "bf16": (0x7F81, 0xFF81, 0x7FC0, 0xFFC1, 0x7FBF, 0xFFFF),
    "cb16": (0x7E01, 0xFE01, 0x7F00, 0xFF01, 0x7EFF, 0xFFFF),
}
TOP = """
const known = @bitcast(NUMBER, @as(WORD, BITS));
var variable = known;
var array = [3]NUMBER{ 1.0, known, known };
const pair = struct { a: i16, b: NUMBER };
var field = pair{ .a = 1, .b = known };
const fields = pair{ .a = 1, .b = known };
var filled = @constants([2]NUMBER, known);
var moved = @zeros([2]NUMBER);
const moved_d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> moved[i] });
var later: NUMBER = 0.0;
fn same(x: NUMBER) NUMBER { return x; }
fn given(comptime x: NUMBER) NUMBER { return x; }
fn word(x: NUMBER) u32 { return @as(u32, @bitcast(WORD, x)); }
"""
BODY = """
  later = known;
  const local = known;
  var changed: NUMBER = 1.0; changed = known;
  MOVE(moved_d, known);
  out[0] = @as(u32, @bitcast(WORD, known)); out[1] = word(variable); out[2] = word(array[1]);
  out[3] = word(array[2]); out[4] = word(field.b); out[5] = word(fields.b);
  out[6] = word(filled[1]); out[7] = word(later); out[8] = word(local); out[9] = word(changed);
  out[10] = word(same(known)); out[11] = word(given(known)); out[12] = word(moved[1]);
  out[13] = word(@as(NUMBER, known));
  sys.unblock_cmd_stream();
"""


@pytest.mark.parametrize(
    ("name", "pattern"), [(name, each) for name, all_ in PATTERNS.items() for each in all_]
)
def test_a_nan_enters_with_its_sign_and_payload(name: str, pattern: int) -> None:
    words = {"NUMBER": name, "WORD": "u32" if name == "f32" else "u16", "BITS": str(pattern)}
    top, body = TOP, BODY.replace("MOVE", "@fmovs" if name == "f32" else "@fmovh")
    for word, text in words.items():
        top, body = top.replace(word, text), body.replace(word, text)
    pe = PE.replace("TOP", top).replace("BODY", body)
    files = {"layout.csl": LAYOUT.replace("ROUTES", ""), "pe.csl": pe}
    half = {} if name == "f32" else {"fp16_format": name}
    program = program_of(files, memcpy=True, **half)
    for each in (program, decode(encode(program))):
        out, _ = outcome(each)
        assert [hex(word) for word in out[:14]] == [hex(pattern)] * 14
