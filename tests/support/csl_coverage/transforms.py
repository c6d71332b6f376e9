"""The Fourier transform of <kernels/fft/fft3d_layout>, member by member, on one PE."""

from appliance.fabric.commands import Launch
from tests.support.csl_coverage.rows import Row

PAGE = "<kernels/fft/fft3d_layout>"
SIZE = 4
LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
const fft = @import_module("<kernels/fft/fft3d_layout>", .{ .width = 1, .memcpy = memcpy });
layout {
  @set_rectangle(1, 1);
  fft.FFT_kernel(ARGUMENTS);
}
"""
WAVE = ((1, 0), (0, 1), (-1, 0), (0, -1)) * SIZE**2
"""A wave of one turn along x, the same for all y and z: real and imaginary parts."""
X = tuple(float(part) for number in WAVE for part in number)
TWIDDLES = (1.0, 0.0, 0.0, 1.0)
"""Cosine and sine of a quarter turn for each k of half the size."""
FORWARD, INVERSE = (0, 0, 64), (0, 0, 0, 0, 0, 0, 64)
"""What becomes of it: all of it is at x = 1, of the inverse at x = 3."""


def _transform(
    says: str, call: str, *arguments: int, out: tuple[int, ...], form: str = "1, 4, f32"
) -> Row:
    return Row(
        page=PAGE,
        says=says,
        files={"layout.csl": LAYOUT.replace("ARGUMENTS", form)},
        given={"X": X, "twiddle_array": TWIDDLES},
        calls=(Launch(call, arguments),),
        symbol="X",
        out=out,
    )


ROWS = (
    _transform("'csfftExecC2C' forward, norm 'backward'", "csfftExecC2C", 0, 0, out=FORWARD),
    _transform("'csfftExecC2C' forward, norm 'ortho'", "csfftExecC2C", 1, 0, out=(0, 0, 8)),
    _transform("'csfftExecC2C' forward, norm 'forward'", "csfftExecC2C", 2, 0, out=(0, 0, 1)),
    _transform(
        "'csfftExecC2C' inverse, norm 'backward'", "csfftExecC2C", 0, 1, out=(0, 0, 0, 0, 0, 0, 1)
    ),
    _transform(
        "'csfftExecC2C' inverse, norm 'ortho'", "csfftExecC2C", 1, 1, out=(0, 0, 0, 0, 0, 0, 8)
    ),
    _transform("'csfftExecC2C' inverse, norm 'forward'", "csfftExecC2C", 2, 1, out=INVERSE),
    _transform("'csfftExecR2C' is the forward transform", "csfftExecR2C", 0, out=FORWARD),
    _transform("'csfftExecC2R' is the inverse transform", "csfftExecC2R", 2, out=INVERSE),
    _transform(
        "'FFT_kernel' takes the first PE, too", "csfftExecC2C", 0, 0, out=FORWARD,
        form="0, 0, 1, 4, f32",
    ),
    Row(
        page=PAGE,
        says="'twiddle_array' takes what the host writes",
        files={"layout.csl": LAYOUT.replace("ARGUMENTS", "1, 8, f32")},
        given={"twiddle_array": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)},
        calls=(),
        symbol="twiddle_array",
        out=(1, 2, 3, 4, 5, 6, 7, 8),
    ),
    Row(
        page=PAGE,
        says="<fft> is no library: the transforms are <kernels/fft/fft3d_layout>",
        top='const fft = @import_module($$"<fft>");',
        body="out[0] = fft.size;",
        refused="there is no library '<fft>'",
    ),
)  # fmt: skip
