"""What a detached run's Python finds before its script: real interpreters, a client of a few lines.

The client's own behaviour is tested with the client, in `tests/conformance`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import workers.driver.script_site

SITE = Path(workers.driver.script_site.__file__).parent
CLIENT = """
from types import SimpleNamespace
class DataExecutor:
    def __init__(self, is_csx):
        self.backend = SimpleNamespace(is_csx=is_csx, artifact_dir="logs")
    def _setup_artifact_dir(self):
        self.own = f"{self.backend.artifact_dir}/executors/000001"
"""
SCRIPT = """
from cerebras.pytorch.utils.data.data_executor import DataExecutor
for is_csx in (True, False):
    executor = DataExecutor(is_csx)
    executor._setup_artifact_dir()
    print(executor.own, executor.backend.artifact_dir)
"""


@pytest.fixture
def packages(tmp_path):
    """Return a folder with a client of the layout of the public one."""
    folder = tmp_path / "cerebras" / "pytorch" / "utils" / "data"
    folder.mkdir(parents=True)
    for parent in (folder, *folder.parents[:3]):
        (parent / "__init__.py").touch()
    (folder / "data_executor.py").write_text(CLIENT)
    return tmp_path


def run(script, *paths, **variables):
    environment = {"PYTHONPATH": os.pathsep.join(map(str, paths)), **variables}
    finished = subprocess.run(
        [sys.executable, "-S", "-c", "import site; site.main()\n" + script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return finished.stdout.splitlines(), finished.stderr


def test_each_start_of_a_run_lowers_in_a_directory_of_its_own(packages):
    names = set()
    for driver, restart in (("wsjob-a", "0"), ("wsjob-a", "1"), ("wsjob-b", "0")):
        variables = {"WSC_DRIVER": driver, "WSC_RESTART_COUNT": restart}
        (on_cluster, on_cpu), said = run(SCRIPT, SITE, packages, **variables)
        assert (on_cpu, said) == ("logs/executors/000001 logs", "")
        assert on_cluster == f"logs/runs/{driver}/{restart}/executors/000001 logs"
        names.add(on_cluster)
    assert len(names) == 3


@pytest.mark.parametrize("name", ["a b", "a'b", "a;b", "a$b", "(a)", "a&b", "a*b", 'a"b', "a\\b"])
def test_a_directory_that_a_shell_would_read_otherwise_is_named_by_a_link(packages, tmp_path, name):
    own = tmp_path / name / "logs/runs/wsjob-a/0"
    place = str(tmp_path / name)
    script = (
        f"import os; os.makedirs({place!r}); os.chdir({place!r})\n"
        + SCRIPT.replace("(True, False)", "(True,)")
        + "print(os.path.realpath(executor.own))\n"
    )
    (link, real), said = run(script, SITE, packages, WSC_DRIVER="wsjob-a")
    assert (real, said) == (f"{own}/executors/000001", "")
    assert link.startswith("/tmp/wsc-artifacts-")
    assert not Path(link.split()[0]).parents[2].exists(), "the link outlives the script"


@pytest.mark.parametrize("name", ["plain", "a#b", "mit-Umlaut-äß", "a=b,c:d@e+f%g"])
def test_other_directories_keep_their_names(packages, tmp_path, name):
    place = tmp_path / name
    script = f"import os; os.makedirs({str(place)!r}); os.chdir({str(place)!r})\n" + SCRIPT
    own, _ = run(script, SITE, packages, WSC_DRIVER="wsjob-a")[0]
    assert own == "logs/runs/wsjob-a/0/executors/000001 logs"


def test_a_script_that_is_no_run_is_left_alone(packages):
    assert run(SCRIPT, SITE, packages)[0] == ["logs/executors/000001 logs"] * 2


def test_another_sitecustomize_still_takes_place_and_the_folder_is_gone_from_the_path(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.was_customised = True\n")
    script = f"import sys; print(sys.was_customised, {str(SITE)!r} in sys.path)"
    assert run(script, SITE, tmp_path, WSC_DRIVER="wsjob-a")[0] == ["True False"]


def test_a_client_without_such_directories_runs_and_the_log_says_what_to_do(packages):
    module = packages / "cerebras/pytorch/utils/data/data_executor.py"
    module.write_text("class DataExecutor: pass\n")
    script = (
        "import cerebras.pytorch.utils.data.data_executor as it; print(it.DataExecutor.__name__)"
    )
    lines, said = run(script, SITE, packages, WSC_DRIVER="wsjob-a")
    assert lines == ["DataExecutor"]
    assert "give each an artifact_dir of its own" in said
