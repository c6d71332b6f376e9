"""Scale and add vectors on simulated processing elements: cs_python run.py --name out."""

import argparse
import json

import numpy as np
from cerebras.sdk.runtime.sdkruntimepybind import MemcpyDataType, MemcpyOrder, SdkRuntime

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--name", default="out", help="directory that cslc wrote")
parser.add_argument("--cmaddr", default="", help="address of a system; empty to simulate one")
arguments = parser.parse_args()

with open(f"{arguments.name}/out.json", encoding="utf-8") as file:
    params = json.load(file)["params"]
width, height, n = (int(params[name]) for name in ("width", "height", "n"))

rng = np.random.default_rng(0)
x, y = rng.normal(size=(2, height * width * n)).astype(np.float32)
a = np.float32(0.5)

runner = SdkRuntime(arguments.name, cmaddr=arguments.cmaddr)
whole = (0, 0, width, height)
options = {"streaming": False, "order": MemcpyOrder.ROW_MAJOR, "nonblock": False}
words = {**options, "data_type": MemcpyDataType.MEMCPY_32BIT}
halves = {**options, "data_type": MemcpyDataType.MEMCPY_16BIT}

runner.load()
runner.run()
runner.memcpy_h2d(runner.get_id("x"), x, *whole, n, **words)
runner.memcpy_h2d(runner.get_id("y"), y, *whole, n, **words)
runner.launch("axpy", a, nonblock=False)
result = np.zeros_like(y)
runner.memcpy_d2h(result, runner.get_id("y"), *whole, n, **words)
times = np.zeros(height * width * 6, np.uint32)
runner.memcpy_d2h(times, runner.get_id("times"), *whole, 6, **halves)
runner.stop()

np.testing.assert_allclose(result, y + a * x, rtol=1e-6)
stamps = times.reshape(-1, 2, 3).astype(np.int64) @ (1, 1 << 16, 1 << 32)
cycles = stamps[:, 1] - stamps[:, 0]
print(f"{width} x {height} PEs, {n} elements each: {cycles.max()} simulated cycles")
print("SUCCESS!")
