"""Whether tensors fit into the memory that a pod may use, and how much that is."""

import pytest

from workers.memoryx.on_disk import backing
from workers.memoryx.on_disk.backing import choose_backing, memory_limit

KIB = 1024
MACHINE = 16_000_000 * KIB
MEMORY_INFO = "MemTotal:       16000000 kB\nMemFree:         1000 kB\n"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that plays a machine: the groups of this process, and their files."""
    info, own, groups = tmp_path / "meminfo", tmp_path / "cgroup", tmp_path / "groups"
    monkeypatch.setattr(backing, "_MEMORY_INFO", info)
    monkeypatch.setattr(backing, "_OWN_GROUPS", own)
    monkeypatch.setattr(backing, "_GROUPS", groups)

    def play(own_groups, files=(), *, memory_info=MEMORY_INFO):
        info.write_text(memory_info)
        own.write_text("".join(f"{line}\n" for line in own_groups))
        for name, text in dict(files).items():
            (groups / name).parent.mkdir(parents=True, exist_ok=True)
            (groups / name).write_text(f"{text}\n")

    return play


@pytest.mark.parametrize(
    ("own_groups", "files", "limit"),
    [
        ((), {}, MACHINE),
        (("0::/pod",), {"pod/memory.max": "5000000"}, 5_000_000),
        (("0::/pod",), {"pod/memory.max": "max"}, MACHINE),
        (("0::/pod",), {}, MACHINE),
        (("0::/pod",), {"pod/memory.max": str(2 * MACHINE)}, MACHINE),
        (("4:memory:/pod",), {"memory/pod/memory.limit_in_bytes": "7000"}, 7000),
        (("3:cpu,memory:/a/b",), {"memory/a/b/memory.limit_in_bytes": "9000"}, 9000),
        (("3:cpu:/pod",), {"memory/pod/memory.limit_in_bytes": "7000"}, MACHINE),
        (
            ("4:memory:/pod", "0::/pod"),
            {"memory/pod/memory.limit_in_bytes": "7000", "pod/memory.max": "6000"},
            6000,
        ),
    ],
)
def test_a_pod_may_use_what_its_machine_has_and_its_groups_allow(machine, own_groups, files, limit):
    machine(own_groups, files)
    assert memory_limit() == limit


def test_a_machine_that_does_not_say_how_much_memory_it_has_is_named(machine):
    machine((), memory_info="MemFree: 1 kB\n")
    with pytest.raises(OSError, match="does not say how much memory the machine has"):
        memory_limit()


def test_tensors_lie_on_disk_from_one_byte_on_that_their_room_lacks(tmp_path):
    room = choose_backing(0, limit_bytes=1000, directory=tmp_path).room_bytes
    assert room == int(1000 * backing.TENSOR_SHARE)
    for need, is_on_disk in ((room, False), (room + 1, True)):
        chosen = choose_backing(need, limit_bytes=1000, directory=tmp_path)
        assert (chosen.is_on_disk, chosen.room_bytes) == (is_on_disk, room)
        assert chosen.state_directory == (tmp_path if is_on_disk else None)
