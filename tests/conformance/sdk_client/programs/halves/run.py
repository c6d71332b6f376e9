"""Square 16-bit numbers on one PE: cs_python run.py --name out."""

import argparse
import json

import numpy as np
from cerebras.sdk.runtime.sdkruntimepybind import MemcpyDataType, MemcpyOrder, SdkRuntime
from cerebras.sdk.sdk_utils import input_array_to_u32, memcpy_view

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--name", default="out")
arguments = parser.parse_args()

with open(f"{arguments.name}/out.json", encoding="utf-8") as file:
    n = int(json.load(file)["params"]["n"])
numbers = np.arange(-3, n - 3, dtype=np.int16)

runner = SdkRuntime(arguments.name)
halves = {
    "streaming": False,
    "order": MemcpyOrder.COL_MAJOR,
    "data_type": MemcpyDataType.MEMCPY_16BIT,
    "nonblock": False,
}
runner.load()
runner.run()
symbol = runner.get_id("numbers")
runner.memcpy_h2d(symbol, input_array_to_u32(numbers, 0, 1), 0, 0, 1, 1, n, **halves)
runner.launch("square", np.int16(-2), nonblock=False)
raw, totals = np.zeros(n, np.uint32), np.zeros(2, np.uint32)
runner.memcpy_d2h(raw, symbol, 0, 0, 1, 1, n, **halves)
runner.memcpy_d2h(totals, runner.get_id("sums"), 0, 0, 1, 1, 2, **halves)
runner.stop()
wanted = numbers * numbers * -2
np.testing.assert_array_equal(memcpy_view(raw, np.dtype(np.int16)), wanted)
sums = [np.abs(wanted[0::2]).sum(), np.abs(wanted[1::2]).sum()]
np.testing.assert_array_equal(memcpy_view(totals, np.dtype(np.int16)), sums)
print("SUCCESS!")
