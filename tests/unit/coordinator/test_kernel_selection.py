"""The table of measured kernels, and what systems are told of it."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from appliance.coordinator.run.kernel_selection import KernelSelection, KernelTable
from appliance.core.errors import UserError
from appliance.numerics.choices import Implementation
from protos.wsc.v1 import pods_pb2

MACHINE = "EPYC of the test; PyTorch 9"
NT, TN = "product-nt 256x512x512", "product-tn 512x256x512"


def measured(problem, chosen="openblas"):
    return {
        problem: pods_pb2.ProblemTiming(
            problem=problem,
            by_rule="pytorch",
            chosen=chosen,
            seconds={"pytorch": 2, chosen: 1},
            num_operations=9,
        )
    }


class Systems:
    """Systems that pose problems, and note what they are asked."""

    def __init__(self, *problems, machine=MACHINE, num_threads=1, chosen="openblas"):
        self._problems, self._chosen = problems, chosen
        self._machine, self._num_threads = machine, num_threads
        self.measured, self.used = [], {}

    def __len__(self):
        return len(self._problems)

    def __call__(self, system, method, request, reply_type):
        reply = getattr(self, method)(system, request)
        assert isinstance(reply, reply_type)
        return reply

    def ListProblems(self, system, request):
        assert request.session == 3
        return pods_pb2.ListProblemsReply(
            problems=self._problems[system], num_threads=self._num_threads, machine=self._machine
        )

    def MeasureProblems(self, system, request):
        assert request.num_threads == self._num_threads
        self.measured.append((system, *request.problems))
        timings = [measured(problem, self._chosen)[problem] for problem in request.problems]
        return pods_pb2.MeasureProblemsReply(timings=timings)

    def UseImplementations(self, system, request):
        self.used[system] = dict(request.implementations)
        return pods_pb2.UseImplementationsReply()


def apply(systems, table):
    KernelSelection(len(systems), systems, table).apply(3)
    return systems


def test_one_system_measures_once_and_all_are_told_the_same(tmp_path) -> None:
    systems = apply(Systems([NT], [NT, TN]), KernelTable(tmp_path / "kernels"))
    assert systems.measured == [(0, NT, TN)]
    assert systems.used == {0: {NT: "openblas", TN: "openblas"}, 1: systems.used[0]}
    again = apply(Systems([TN], [NT], chosen="onednn"), KernelTable(tmp_path / "kernels"))
    assert not again.measured, "a job that runs again computes by what was chosen"
    assert again.used == systems.used


def test_what_is_new_is_measured_by_a_system_that_poses_problems(tmp_path) -> None:
    apply(Systems([NT]), KernelTable(tmp_path / "kernels"))
    systems = apply(Systems([], [NT, TN], chosen="onednn"), KernelTable(tmp_path / "kernels"))
    assert systems.measured == [(1, TN)]
    assert systems.used[0] == {NT: "openblas", TN: "onednn"}


@pytest.mark.parametrize("other", [{"machine": "another"}, {"num_threads": 2}])
def test_another_machine_or_number_of_threads_is_measured_anew(tmp_path, other) -> None:
    apply(Systems([NT]), KernelTable(tmp_path / "kernels"))
    systems = apply(Systems([NT], chosen="onednn", **other), KernelTable(tmp_path / "kernels"))
    assert systems.measured == [(0, NT)]
    assert systems.used == {0: {NT: "onednn"}}
    assert apply(Systems([NT]), KernelTable(tmp_path / "kernels")).used == {0: {NT: "openblas"}}


def test_without_problems_nothing_is_written_and_nobody_told(tmp_path) -> None:
    systems = apply(Systems([], []), KernelTable(tmp_path / "kernels"))
    assert not systems.used
    assert not list(tmp_path.iterdir())


def test_the_first_of_two_that_measure_at_the_same_time_decides(tmp_path) -> None:
    first, second = (KernelTable(tmp_path / "kernels") for _ in range(2))
    first.add(MACHINE, 1, measured(NT, "openblas"))
    counts = second.add(MACHINE, 1, measured(NT, "onednn") | measured(TN, "onednn"))
    assert counts == {NT: Implementation.OPENBLAS, TN: Implementation.ONEDNN}
    assert first.read(MACHINE, 1) == counts


def test_processes_that_write_at_the_same_time_lose_nothing(tmp_path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.unit.coordinator.test_kernel_selection import *\n"
        "for number in range(20):\n"
        "    problem = f'product-nt {sys.argv[2]}x{number + 1}x8'\n"
        "    KernelTable(Path(sys.argv[1])).add(MACHINE, 1, measured(problem))\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "kernels"), str(size)])
        for size in (7, 9)
    ]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    assert len(KernelTable(tmp_path / "kernels").read(MACHINE, 1)) == 40
    names = sorted(path.suffix for path in (tmp_path / "kernels").iterdir())
    assert names == [".json", ".lock"], "no half-written file is left"


@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o007, 0o660)])
def test_who_else_may_write_is_the_process_s_umask(tmp_path, mask, mode) -> None:
    before = os.umask(mask)
    try:
        apply(Systems([NT]), KernelTable(tmp_path / "kernels"))
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "kernels").iterdir()}
    assert modes == {mode}, "coordinators on other nodes may have users of their own in our group"


def test_a_table_says_for_people_what_was_measured(tmp_path) -> None:
    apply(Systems([NT]), KernelTable(tmp_path / "kernels"))
    (path,) = (tmp_path / "kernels").glob("*.json")
    found = json.loads(path.read_text())
    assert found["machine"] == MACHINE
    assert found["by_threads"]["1"][NT] == {
        "by_rule": "pytorch",
        "chosen": "openblas",
        "seconds": {"openblas": 1, "pytorch": 2},
        "num_operations": 9,
    }
    (entry,) = KernelTable(tmp_path / "kernels").measured()
    assert (entry.machine, entry.num_threads) == (MACHINE, 1)
    assert (str(entry.problem), entry.num_operations) == (NT, 9)
    assert (entry.chosen, entry.by_rule) == (Implementation.OPENBLAS, Implementation.PYTORCH)
    assert entry.seconds == {Implementation.OPENBLAS: 1, Implementation.PYTORCH: 2}


@pytest.mark.parametrize("text", ["", "[]", '{"by_threads": {"1": {"p": {"chosen": "cuda"}}}}'])
def test_a_table_that_cannot_be_read_is_named_with_what_to_do(tmp_path, text) -> None:
    apply(Systems([NT]), KernelTable(tmp_path / "kernels"))
    (path,) = (tmp_path / "kernels").glob("*.json")
    path.write_text(text)
    with pytest.raises(UserError, match=f"{path} does not hold measurements") as raised:
        apply(Systems([NT]), KernelTable(tmp_path / "kernels"))
    with pytest.raises(UserError, match=f"{path} does not hold measurements"):
        list(KernelTable(tmp_path / "kernels").measured())
    assert "Remove the file" in str(raised.value.hint)


@pytest.mark.parametrize(
    "place", ["beside a lock that cannot be taken", "in a directory that is no directory"]
)
def test_measurements_that_cannot_be_kept_are_not_used(tmp_path, caplog, place) -> None:
    apply(Systems([NT]), KernelTable(tmp_path / "kernels"))
    (lock,) = (tmp_path / "kernels").glob("*.lock")
    if place == "in a directory that is no directory":
        shutil.rmtree(tmp_path / "kernels")
        (tmp_path / "kernels").touch()
    else:
        lock.unlink()
        lock.mkdir()
    systems = apply(Systems([NT, TN], [TN]), KernelTable(tmp_path / "kernels"))
    assert systems.used == {0: {}, 1: {}}, "the same rule for all, now and next time"
    assert "measurements cannot be kept" in caplog.text
