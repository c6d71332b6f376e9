"""Checks the sums of spcl/spatial-collectives: at the first PE, or at all for an all-reduce."""

import argparse
import json
from pathlib import Path

import numpy as np
from cerebras.sdk.runtime.sdkruntimepybind import MemcpyDataType, MemcpyOrder, SdkRuntime

parser = argparse.ArgumentParser()
parser.add_argument("--name")
name = parser.parse_args().name
params = json.loads((Path(name) / "out.json").read_text())["params"]
width, height, count, is_allred = (
    int(params[key]) for key in ("Pw", "Ph", "Nx_start", "is_allred")
)
runner = SdkRuntime(name)
runner.load()
runner.run()
MODE = {
    "streaming": False,
    "data_type": MemcpyDataType.MEMCPY_32BIT,
    "order": MemcpyOrder.ROW_MAJOR,
    "nonblock": False,
}
x = runner.get_id("x")
rng = np.random.default_rng(1)
for _ in range(3):
    given = rng.integers(0, 100, (height, width, count)).astype(np.float32)
    runner.memcpy_h2d(x, given.ravel(), 0, 0, width, height, count, **MODE)
    runner.launch("f_sync", np.int16(1), nonblock=False)
    found = np.zeros(given.size, np.float32)
    runner.memcpy_d2h(found, x, 0, 0, width, height, count, **MODE)
    found = found.reshape(given.shape)
    np.testing.assert_array_equal(
        found if is_allred else found[:1, :1],
        np.broadcast_to(given.sum((0, 1)), given.shape if is_allred else (1, 1, count)),
    )
runner.stop()
