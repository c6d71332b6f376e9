"""Drives a public example by SdkRuntime, operation by operation: drive.py COMMAND_FILE.

What `cslc` is told in the command file goes to SdkCompiler. gemv-01-complete-program and
topic-01-arrays-and-pointers; the latter reads 16-bit elements.
"""

import shlex
import sys
from pathlib import Path

import numpy as np
from cerebras.appliance.pb.sdk.sdk_common_pb2 import MemcpyDataType, MemcpyOrder
from cerebras.sdk.client import SdkCompiler, SdkRuntime

path = Path(sys.argv[1])
(line,) = (
    each for each in path.read_text().replace("\\\n", " ").splitlines() if each.startswith("cslc ")
)
words = shlex.split(line)[1:]
main = next(word for word in words if word.endswith(".csl"))
words.remove(main)
ONE_PE = {"x": 0, "y": 0, "w": 1, "h": 1, "streaming": False, "nonblock": False}

with SdkCompiler() as compiler:
    artifact = compiler.compile(str(path.parent), Path(main).name, " ".join(words), ".")
with SdkRuntime(artifact, simulator=True) as runtime:
    if path.parent.name.startswith("gemv-01"):
        runtime.launch("init_and_compute", nonblock=False)
        found = np.zeros(4, np.float32)
        layout = {"data_type": MemcpyDataType.MEMCPY_32BIT, "order": MemcpyOrder.ROW_MAJOR}
        runtime.memcpy_d2h(found, runtime.get_id("y"), elt_per_pe=4, **ONE_PE, **layout)
        matrix = np.arange(24, dtype=np.float32).reshape(4, 6)
        np.testing.assert_allclose(found, matrix.sum(axis=1) + 2, atol=0.01, rtol=0)
    else:
        runtime.launch("f_run", nonblock=False)
        halves = np.zeros(1, np.uint32)
        layout = {"data_type": MemcpyDataType.MEMCPY_16BIT, "order": MemcpyOrder.COL_MAJOR}
        runtime.memcpy_d2h(halves, runtime.get_id("result"), elt_per_pe=1, **ONE_PE, **layout)
        np.testing.assert_equal(halves.view(np.int16)[0], 9)
print("SUCCESS!")
