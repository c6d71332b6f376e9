"""What the parties need of a machine, and the Python environment of DeepSpeed.

We do not depend on it ourselves, so its environment is built when first needed, from
`requirements.txt`, under `~/.cache/wsc/baselines` (or `WSC_BASELINES_VENV`). DeepSpeed compiles its
CPU operators when it first runs, which needs g++.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


class BaselineMissingError(Exception):
    """A baseline cannot be run on this machine; the message says why."""


def multiplies_bfloat16() -> bool:
    """Return whether the processor has instructions for it; else libraries compute in float32."""
    words = set(Path("/proc/cpuinfo").read_text().split())
    return not words.isdisjoint({"avx512_bf16", "amx_bf16"})


def require_compiler(baseline: str) -> None:
    """Check that what compiles C++ when it first runs can.

    Raises:
        BaselineMissingError: There is no g++ here.
    """
    if shutil.which("g++") is None:
        raise BaselineMissingError(f"{baseline} compiles C++: install g++ (apt-get install g++)")


def baselines_python() -> Path:
    """Return the interpreter of the environment, which is built if it is not there.

    Raises:
        BaselineMissingError: It cannot be built.
    """
    default = Path.home() / ".cache" / "wsc" / "baselines"
    venv = Path(os.environ.get("WSC_BASELINES_VENV") or default)
    stamp = venv / ".installed"
    if not stamp.exists() or stamp.read_text() != REQUIREMENTS.read_text():
        _build(venv)
        stamp.write_text(REQUIREMENTS.read_text())
    return venv / "bin" / "python"


def baselines_environment(python: Path) -> dict[str, str]:
    """Return the environment variables in which DeepSpeed finds its compiler and its cache."""
    return os.environ | {
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "TORCH_EXTENSIONS_DIR": str(python.parents[1] / "extensions"),
        "DS_ACCELERATOR": "cpu",
    }


def _build(venv: Path) -> None:
    require_compiler("DeepSpeed")
    print(f"installing the baselines into {venv} (a few minutes)", file=sys.stderr, flush=True)
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if line and line[0] != "#"]
    first = [line for line in lines if not line.startswith("deepspeed")]
    last = [line for line in lines if line.startswith("deepspeed")]
    pip = [str(venv / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
    commands = [
        [sys.executable, "-m", "venv", str(venv)],
        [*pip, *first],
        [*pip, "--no-build-isolation", *last],
    ]
    for command in commands:
        done = subprocess.run(
            command,
            env=os.environ | {"DS_BUILD_OPS": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            reason = (done.stdout.strip().splitlines() or ["no output"])[-1]
            raise BaselineMissingError(f"{' '.join(command[:3])} ... failed: {reason}")
