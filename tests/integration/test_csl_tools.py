"""cslc and cs_python as processes, without an appliance, with a program of our own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.fabric.tracing.trace import read_trace
from appliance.wire.fabric_traces import TraceFile
from tests.support.appliance import ROOT

SOURCES = ROOT / "examples" / "csl"
OPTIONS = ("--fabric-dims=11,4", "--fabric-offsets=4,1", "--params=width:4,height:2,n:8")
OPTIONS += ("--memcpy", "--channels=1")


def tool(name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"appliance.sdk.{name}", *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def compiled(cwd: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return tool("cslc", str(SOURCES / "layout.csl"), *OPTIONS, *options, cwd=cwd)


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    """A directory with the compiled program in `out`."""
    directory = tmp_path_factory.mktemp("program")
    done = compiled(directory)
    assert done.returncode == 0, done.stderr
    return directory


def told(program: Path, code: str) -> str:
    """Return the last line of what a host program prints; the runtime is `r`."""
    start = (
        "import numpy as np\n"
        "from cerebras.sdk.runtime.sdkruntimepybind import *\n"
        "o = dict(streaming=False, order=MemcpyOrder.ROW_MAJOR, nonblock=False,\n"
        "         data_type=MemcpyDataType.MEMCPY_32BIT)\n"
        "r = SdkRuntime('out')\n"
        "def go():\n"
        "    r.load(); r.run()\n"
    )
    done = tool("cs_python", "-c", start + code, cwd=program)
    return (done.stdout + done.stderr).strip().split("\n")[-1]


@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
def test_the_example_of_the_documentation_runs(architecture):
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [str(SOURCES / "run.sh"), architecture],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("SUCCESS!\n")


def test_the_output_is_what_host_programs_look_for(program):
    out = program / "out"
    given = json.loads((out / "out.json").read_text())["params"]
    assert {name: int(value) for name, value in given.items()} == {"width": 4, "height": 2, "n": 8}
    symbols = json.loads((out / "bin" / "out_rpc.json").read_text())["rpc_symbols"]
    assert {each["name"]: each["kind"] for each in symbols} == {
        "x": "Var",
        "y": "Var",
        "times": "Var",
        "axpy": "Func",
    }
    assert {path.name for path in out.iterdir()} == {"bin", "east", "west", "generated", "out.json"}
    assert (out / "bin" / "out_0_0.elf").is_file()


def test_an_error_has_its_place_and_leaves_the_earlier_output(tmp_path):
    assert compiled(tmp_path).returncode == 0
    before = (tmp_path / "out" / "bin" / "program.bin").read_bytes()
    (tmp_path / "layout.csl").write_text("layout {\n  nowhere();\n}\n")
    done = tool("cslc", "layout.csl", *OPTIONS, cwd=tmp_path)
    assert done.returncode == 1
    assert "layout.csl:2:3: error: use of undeclared identifier 'nowhere'" in done.stderr
    assert (tmp_path / "out" / "bin" / "program.bin").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["layout.csl", "out"]


def test_a_wrong_command_is_told_from_a_wrong_program(tmp_path):
    done = tool("cslc", "nothing.csl", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "cslc: error: There is no file nothing.csl.\n")
    assert list(tmp_path.iterdir()) == []


MANY_CLASSES = """
layout {
  @set_rectangle(250, 200);
  for (@range(u16, 250)) |x| {
    for (@range(u16, 200)) |y| { @set_tile_code(x, y, "pe.csl", .{ .x = x, .y = y }); }
  }
}
"""
ONE_CLASS = 'layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl", .{ .x = 0, .y = 0 }); }'
LARGE = "".join(f"const a{at} = @zeros([1 << 22]u32);\n" for at in range(40))
USED = "comptime { " + " ".join(f"_ = a{at};" for at in range(40)) + " }\n"


@pytest.mark.parametrize(
    ("layout", "pe", "option", "text"),
    [
        (MANY_CLASSES, "", "--max-seconds=2", "more than 2 s of processor time; --max-seconds"),
        (ONE_CLASS, LARGE + USED, "--max-memory-mib=400", "than 400 MiB; --max-memory-mib"),
    ],
)
def test_a_program_without_bounds_ends_with_the_number_and_the_option(
    tmp_path, layout, pe, option, text
):
    (tmp_path / "layout.csl").write_text(layout)
    (tmp_path / "pe.csl").write_text("param x: u16; param y: u16;\n" + pe)
    done = tool("cslc", "layout.csl", option, cwd=tmp_path)
    assert done.returncode == 1
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    done = compiled(tmp_path, "-o", "taken/out")
    assert done.returncode == 2
    assert "Output directory taken/out cannot be written" in done.stderr


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("r.get_id('z')", "exports no symbol 'z'; it exports axpy, times, x, y."),
        ("r.launch('axpy', 1.0, nonblock=False)", "this one does not run yet (load(), run())."),
        ("go(); r.launch('axpy', 1, 2, nonblock=False)", "takes 1 argument(s); 2 given."),
        ("go(); r.stop(); r.launch('axpy', 1.0, nonblock=False)", "this one has stopped."),
        (
            "go(); r.memcpy_h2d(r.get_id('times'), np.zeros(48, np.uint32), 0, 0, 4, 2, 6, **o)",
            "Symbol 'times' is exported for reading only.",
        ),
        (
            "go(); r.memcpy_h2d(r.get_id('x'), np.zeros(3, np.float32), 0, 0, 4, 2, 8, **o)",
            "the array has 3 elements; 4 x 2 PEs with 8 each take 64",
        ),
        (
            "go(); r.memcpy_h2d(r.get_id('x'), np.zeros(64), 0, 0, 4, 2, 8, **o)",
            "the array has elements of type float64; they must have 32 bits",
        ),
        ("SdkRuntime('out', cmaddr='10.0.0.1:9000')", "leave cmaddr empty to simulate one."),
        ("SdkRuntime('nothing')", "No such file or directory."),
    ],
)
def test_what_a_host_program_does_wrong_is_told_in_one_line(program, code, message):
    assert told(program, code).endswith(message), told(program, code)


def test_a_copy_beyond_the_program_is_refused(program):
    code = "go(); r.memcpy_d2h(np.zeros(8, np.float32), r.get_id('y'), 4, 0, 1, 1, 8, **o)"
    assert told(program, code).startswith("RuntimeError: ")


def test_a_program_that_is_no_program_is_refused(program, tmp_path):
    (tmp_path / "out" / "bin").mkdir(parents=True)
    for name in ("out_rpc.json", "program.bin"):
        content = (program / "out" / "bin" / name).read_bytes()
        (tmp_path / "out" / "bin" / name).write_bytes(content[: len(content) // 2 or 1])
    (tmp_path / "out" / "bin" / "out_rpc.json").write_text('{"rpc_symbols": []}')
    assert "is not a program that this version can run" in told(tmp_path, "go()")


def test_tasks_end_in_their_order_and_keep_their_data(program):
    code = (
        "go()\n"
        "x, y = np.arange(128, dtype=np.float32).reshape(2, 64)\n"
        "n = {**o, 'nonblock': True}\n"
        "a = r.memcpy_h2d(r.get_id('x'), x, 0, 0, 4, 2, 8, **n)\n"
        "b = r.memcpy_h2d(r.get_id('y'), y, 0, 0, 4, 2, 8, **n)\n"
        "c = r.launch('axpy', 2.0, nonblock=True)\n"
        "got = np.zeros((64, 1), np.float32)\n"
        "d = r.memcpy_d2h(got, r.get_id('y'), 0, 0, 4, 2, 8, **n)\n"
        "x[:] = 0\n"  # what was handed over counts
        "r.task_wait(d)\n"
        "assert all(r.is_task_done(each) for each in (a, b, c, d))\n"
        "r.stop()\n"
        "print((got[:, 0] == y + 2 * np.arange(64)).all(), r.read_symbol(3, 1, 'x', 'f4')[-1])\n"
    )
    assert told(program, code) == "True 63.0"
    assert (program / "sim.log").is_file()


def traced_run(program: Path, code: str, **variables: str) -> str:
    """Run the program's function once and return what is printed; `r` is the runtime."""
    start = (
        "import numpy as np\n"
        "from cerebras.sdk.runtime.sdkruntimepybind import *\n"
        f"{code}\n"
        "r.load(); r.run(); r.launch('axpy', np.float32(2), nonblock=False); r.stop()\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "appliance.sdk.cs_python", "-c", start],
        cwd=program,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("code", "variables", "name"),
    [
        ("r = SdkRuntime('out')", {"WSC_FABRIC_TRACE": "1"}, "fabric.trace"),
        ("r = SdkRuntime('out', fabric_trace='a/my.trace')", {}, "a/my.trace"),
        ("r = SdkRuntime('out')", {}, ""),
        ("r = SdkRuntime('out', fabric_trace='')", {"WSC_FABRIC_TRACE": "1"}, ""),
    ],
)
def test_a_run_is_traced_where_somebody_asks_for_it(program, code, variables, name):
    for old in program.rglob("*.trace"):
        old.unlink()
    assert traced_run(program, code, **variables) == ""
    assert [str(path.relative_to(program)) for path in program.rglob("*.trace")] == [name] * bool(
        name
    )
    if name:
        lines = read_trace(TraceFile(program / name)).header["classes"][0]["lines"].values()
        assert any(line[0] == "axpy" and line[4].startswith("@fmacs") for line in lines)


def test_a_compiled_program_has_its_runs_traced_and_says_how_much_is_kept(tmp_path):
    assert compiled(tmp_path, "--fabric-trace=20").returncode == 0
    assert traced_run(tmp_path, "r = SdkRuntime('out')") == ""
    trace = read_trace(TraceFile(tmp_path / "fabric.trace"))
    assert len(trace.events) == trace.header["num_events"] == 20
    assert trace.header["num_lost"] > 0
    said = traced_run(tmp_path, "r = SdkRuntime('out')", WSC_FABRIC_TRACE_EVENTS="many")
    assert "a trace keeps 1 to 16,777,216 events" in said


def test_a_run_that_fails_leaves_its_trace(program):
    code = (
        "r = SdkRuntime('out', fabric_trace='failed.trace')\n"
        "r.load(); r.run()\n"
        "o = dict(streaming=True, order=MemcpyOrder.ROW_MAJOR, nonblock=False)\n"
        "o |= dict(data_type=MemcpyDataType.MEMCPY_32BIT)\n"
        "r.memcpy_d2h(np.zeros(8, np.uint32), 5, 0, 0, 4, 2, 1, **o)"
    )
    assert "Nothing has moved" in traced_run(program, code)
    assert "color 5" in read_trace(TraceFile(program / "failed.trace")).header["end"]
