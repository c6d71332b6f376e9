"""cs_python: its modules are seen by its own interpreter alone."""

import os
import subprocess
import sys
from pathlib import Path

from appliance.sdk import cs_python

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
    code = "import os, sys; print(os.environ.get('PYTHONPATH'), sys.path[2])"
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
