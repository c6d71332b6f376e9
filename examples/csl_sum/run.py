"""Sum vectors over a grid of simulated processing elements: cs_python run.py --name out."""

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

vectors = np.random.default_rng(0).integers(0, 100, (height, width, n)).astype(np.float32)
runner = SdkRuntime(arguments.name, cmaddr=arguments.cmaddr)
options = {
    "streaming": False,
    "order": MemcpyOrder.ROW_MAJOR,
    "data_type": MemcpyDataType.MEMCPY_32BIT,
    "nonblock": False,
}
runner.load()
runner.run()
vector = runner.get_id("vector")
runner.memcpy_h2d(vector, vectors.reshape(-1), 0, 0, width, height, n, **options)
runner.launch("sum", nonblock=False)
result = np.zeros(n, np.float32)
runner.memcpy_d2h(result, vector, 0, 0, 1, 1, n, **options)
runner.stop()

np.testing.assert_array_equal(result, vectors.sum(axis=(0, 1)))
print(f"The sum of {width * height} vectors of {n} elements is right.")
