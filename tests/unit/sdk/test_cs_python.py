"""cs_python: its modules are seen by its own interpreter alone."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from appliance.sdk import cs_python, host_packages

FIND = "import importlib.util as u; print(u.find_spec('cerebras') is not None)"


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", cs_python.__file__, *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_programs_import_the_host_modules(tmp_path):
    program = tmp_path / "run.py"
    program.write_text(
        "import sys\n"
        "from cerebras.sdk.runtime.sdkruntimepybind import MemcpyDataType, MemcpyOrder\n"
        "from cerebras.sdk.runtime.sdkruntimepybind import SdkRuntime\n"
        "from cerebras.sdk.sdk_utils import calculate_cycles, input_array_to_u32, memcpy_view\n"
        "from cerebras.sdk.debug.debug_util import debug_util\n"
        "from cerebras.geometry.geometry import IntRectangle, IntVector\n"
        "print(__name__, sys.argv[1:], debug_util.__name__, MemcpyDataType.MEMCPY_16BIT.name)\n"
    )
    done = run(str(program), "--name", "out")
    assert done.stdout == "__main__ ['--name', 'out'] StoppedRun MEMCPY_16BIT\n", done.stderr


def test_a_python_that_a_program_starts_does_not_see_them():
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {FIND!r}], check=True)"
    assert run("-c", FIND).stdout == "True\n"
    assert run("-c", code).stdout == "False\n"


def test_the_users_own_path_is_kept(tmp_path):
    code = "import os, sys; print(os.environ.get('PYTHONPATH'), sys.path[3])"
    done = run("-c", code, PYTHONPATH=str(tmp_path))
    assert done.stdout.split() == [str(tmp_path)] * 2


def test_an_installed_sdk_keeps_its_other_modules(tmp_path):
    client = tmp_path / "cerebras" / "sdk" / "client"
    client.mkdir(parents=True)
    (client.parent / "__init__.py").write_text("")
    (client / "__init__.py").write_text("NAME = 'the installed one'\n")
    code = "import cerebras.sdk.client as c, cerebras.sdk.sdk_utils as u; print(c.NAME, u.__file__)"
    done = run("-c", code, PYTHONPATH=str(tmp_path))
    name, _, path = done.stdout.strip().rpartition(" ")
    assert name == "the installed one", done.stderr
    assert Path(path).is_relative_to(cs_python.HOST_MODULES)


def test_another_sitecustomize_still_takes_place(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.was_customised = True\n")
    done = run("-c", "import sys; print(sys.was_customised)", PYTHONPATH=str(tmp_path))
    assert done.stdout == "True\n", done.stderr


def test_no_module_of_the_host_side_imports_torch_or_grpc():
    code = (
        "import sys, appliance.sdk.arguments, appliance.sdk.cslc, appliance.sdk.cs_python\n"
        "print([name for name in ('torch', 'grpc', 'numpy', 'llvmlite') if name in sys.modules])"
    )
    assert run("-c", code).stdout == "[]\n"


MISSING = """
from cerebras.sdk.runtime.sdkruntimepybind import SdkRuntime
def begin():
    return SdkRuntime("missing")
begin()
"""


def test_an_error_of_ours_shows_only_the_lines_of_the_program(tmp_path):
    program = tmp_path / "run.py"
    program.write_text(MISSING)
    lines = run(str(program)).stderr.splitlines()
    places = [line.split(", ", 1)[1] for line in lines if line.startswith("  File")]
    assert places == ["line 5, in <module>", "line 4, in begin"]
    assert lines[-1].startswith("RuntimeError: ")
    assert str(Path(cs_python.__file__).parent) not in "\n".join(lines[:-1])


def test_traceback_shows_our_lines_too_and_is_no_argument_of_the_program(tmp_path):
    program = tmp_path / "run.py"
    program.write_text(f"import sys; print(sys.argv[1:])\n{MISSING}")
    done = run("--traceback", str(program), "--traceback")
    assert done.stdout == "['--traceback']\n"
    assert str(Path(cs_python.__file__).parent) in done.stderr


def test_an_error_of_the_program_is_told_as_by_python(tmp_path):
    program = tmp_path / "run.py"
    program.write_text("def f():\n    return {}['x']\nf()\n")
    assert run(str(program)).stderr.splitlines()[-1] == "KeyError: 'x'"


CLOCK = """
import numpy
low, middle, high = numpy.array([5, 1, 0], numpy.uint16)
print(numpy.__version__, low + (middle << 16) + (high << 32))
"""


def test_clocks_of_three_words_are_joined_as_in_the_sdks_own_numpy() -> None:
    done = run("-c", CLOCK)
    assert done.stdout.split() == [host_packages.version(), str(5 + (1 << 16))], done.stderr
    assert host_packages.version().split(".")[:2] in (["1", "25"], ["1", "26"])


def test_libraries_of_host_programs_work_with_that_numpy() -> None:
    code = (
        "import numpy, scipy.sparse, pandas, matplotlib\n"
        "from appliance.fabric.host_interface import Simulator\n"
        "print(scipy.sparse.eye(3).sum() + pandas.Series([1.0]).sum() + numpy.ones(1)[0])"
    )
    done = run("-c", code)
    assert done.stdout == "5.0\n", done.stderr


def test_the_packages_may_lie_elsewhere_or_be_left_out(tmp_path: Path) -> None:
    outside = run("-c", "import numpy; print(numpy.__version__)", WSC_CS_PYTHON_PACKAGES="none")
    assert outside.stdout == f"{np.__version__}\n"
    missing = run("-c", CLOCK, WSC_CS_PYTHON_PACKAGES=str(tmp_path))
    assert (missing.returncode, missing.stdout) == (2, "")
    text = f"WSC_CS_PYTHON_PACKAGES names {tmp_path}, which has no numpy"
    assert text in missing.stderr


def test_a_failed_installation_says_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "appliance.sdk.host_packages", str(tmp_path / "packages")],
        env={
            **os.environ,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": "",
            "PIP_CONFIG_FILE": os.devnull,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "appliance.sdk.host_packages DIRECTORY" in done.stderr
    assert list(tmp_path.iterdir()) == []
