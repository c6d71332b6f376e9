"""Multiply a matrix whose rows lie on several PEs: cs_python run.py --name out."""

import argparse
import json

import numpy as np
from cerebras.sdk.runtime.sdkruntimepybind import MemcpyDataType, MemcpyOrder, SdkRuntime

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--name", default="out")
arguments = parser.parse_args()

with open(f"{arguments.name}/out.json", encoding="utf-8") as file:
    params = json.load(file)["params"]
width, rows, columns = (int(params[name]) for name in ("width", "rows", "columns"))

rng = np.random.default_rng(7)
matrix = rng.normal(size=(width * rows, columns)).astype(np.float32)
x = rng.normal(size=columns).astype(np.float32)
y = rng.normal(size=width * rows).astype(np.float32)

runner = SdkRuntime(arguments.name)
whole = (0, 0, width, 1)
words = {
    "streaming": False,
    "order": MemcpyOrder.ROW_MAJOR,
    "data_type": MemcpyDataType.MEMCPY_32BIT,
    "nonblock": False,
}
runner.load()
runner.run()
runner.memcpy_h2d(runner.get_id("matrix"), matrix.ravel(), *whole, rows * columns, **words)
runner.memcpy_h2d(runner.get_id("x"), np.tile(x, width), *whole, columns, **words)
runner.memcpy_h2d(runner.get_id("y"), y, *whole, rows, **words)
runner.launch("multiply", nonblock=False)
result = np.zeros_like(y)
runner.memcpy_d2h(result, runner.get_id("y"), *whole, rows, **words)
runner.stop()
np.testing.assert_allclose(result, matrix @ x + y, rtol=1e-4, atol=1e-5)
print("SUCCESS!")
