"""Traces with the client as it is: by a variable in a command, and by an option of the compiler."""

import json
import sys
from pathlib import Path

import numpy as np
from cerebras.appliance.pb.sdk.sdk_common_pb2 import MemcpyDataType, MemcpyOrder
from cerebras.sdk.client import SdkCompiler, SdkLauncher, SdkRuntime

SOURCES = sys.argv[1]
OPTIONS = (
    "--arch=wse2 --fabric-dims=13,6 --fabric-offsets=4,1 --params=width:6,height:4,n:12 -o out "
    "--memcpy --channels=1"
)

with SdkCompiler() as compiler:
    plain = compiler.compile(SOURCES, "layout.csl", OPTIONS, ".")
    traced = compiler.compile(SOURCES, "layout.csl", f"{OPTIONS} --fabric-trace", ".")
with SdkLauncher(plain, simulator=True) as launcher:
    launcher.stage(f"{SOURCES}/run.py")
    printed = launcher.run("WSC_FABRIC_TRACE=1 cs_python run.py --name out")
    launcher.download_artifact("fabric.trace", "./mine.trace")
with SdkRuntime(traced, simulator=True) as runtime:
    vector = runtime.get_id("vector")
    words = {"data_type": MemcpyDataType.MEMCPY_32BIT, "order": MemcpyOrder.ROW_MAJOR}
    data = np.ones(6 * 4 * 12, np.float32)
    runtime.memcpy_h2d(vector, data, 0, 0, 6, 4, 12, streaming=False, nonblock=False, **words)
    runtime.launch("sum", nonblock=False)
print(json.dumps({"printed": printed, "bytes": Path("mine.trace").stat().st_size}))
