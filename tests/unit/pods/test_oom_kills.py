"""A process that was killed for want of memory is told from one that somebody killed."""

import signal

import pytest

from appliance.pods.oom_kills import WORDS, OomKills

EVENTS = "low 0\nhigh 0\nmax 3\noom {0}\noom_kill {0}\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill {0}\n"


@pytest.mark.parametrize(
    ("membership", "place", "form"),
    [
        ("0::/jobs/a\n", "jobs/a/memory.events", EVENTS),
        ("0::/of/the/host\n", "memory.events", EVENTS),  # a container's own root
        ("4:cpu,memory:/a\n3:cpuset:/\n0::/\n", "memory/a/memory.oom_control", CONTROL),
        ("4:memory:/of/the/host\n0::/\n", "memory/memory.oom_control", CONTROL),
    ],
)
def test_a_kill_is_one_for_memory_if_the_control_group_has_counted_it(
    tmp_path, membership, place, form
):
    memberships, counter = tmp_path / "cgroup", tmp_path / "fs" / place
    memberships.write_text(membership)
    counter.parent.mkdir(parents=True)
    counter.write_text(form.format(2))
    kills = OomKills(tmp_path / "fs", memberships)
    assert kills.explain(-signal.SIGKILL) == "", "two kills of before are not this one"
    counter.write_text(form.format(3))
    assert kills.explain(-signal.SIGTERM) == ""
    assert kills.explain(137) == ""
    assert kills.explain(-signal.SIGKILL) == WORDS
    assert kills.explain(-signal.SIGKILL) == "", "one kill explains one end"
    counter.unlink()
    assert kills.explain(-signal.SIGKILL) == ""


def test_a_system_that_counts_nothing_explains_nothing(tmp_path):
    assert OomKills(tmp_path, tmp_path / "nothing").explain(-signal.SIGKILL) == ""
    (tmp_path / "cgroup").write_text("0::/\n")
    assert OomKills(tmp_path, tmp_path / "cgroup").explain(-signal.SIGKILL) == ""
