"""A process that keeps freed memory touches no new pages for the next tensor of that size."""

import subprocess
import sys

PROGRAM = """
import resource, sys, torch
from appliance.pods.allocator import keep_freed_memory, use_one_arena

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "keep":
    use_one_arena()
    assert keep_freed_memory()
def touch():
    tensors = [torch.ones(9, 1024, 1024) for _ in range(2)]
    del tensors

for _ in range(32):
    touch()
before = faults()
for _ in range(4):
    touch()
print(faults() - before)
"""
"""Counts after the heap has settled.

An aligned block asks for some bytes more than the block that was freed has, and small blocks come
to lie between large ones: until those have found a place of their own, the heap grows for three
to eight rounds, how many hangs on where the system puts it.
"""


def page_faults(how):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_freed_memory_is_used_again():
    # Eight tensors of 36 MB, larger than any that the C library keeps by itself: 73,728 pages of
    # 4 KB, or 144 huge ones.
    assert 4 * page_faults("keep") < page_faults("default")
