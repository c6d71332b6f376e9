"""A process that keeps freed memory touches no new pages for the next tensor of that size."""

import subprocess
import sys

PROGRAM = """
import resource, sys, torch
from appliance.numerics.allocator import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "keep":
    assert keep_freed_memory()
def touch():
    tensors = [torch.ones(4, 1024, 1024) for _ in range(4)]
    del tensors

touch(); touch()
before = faults()
for _ in range(4):
    touch()
print(faults() - before)
"""


def page_faults(how):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_freed_memory_is_used_again():
    # 4 x 64 MB are 65,536 pages of 4 KB each time.
    assert page_faults("keep") < 1000 < page_faults("default")
