"""Checks a star stencil: neighbors at distance d weigh 1 / (d + 1), the place itself -1."""

import argparse
import json
from pathlib import Path

import numpy as np
from cerebras.sdk.runtime.sdkruntimepybind import MemcpyDataType, MemcpyOrder, SdkRuntime

parser = argparse.ArgumentParser()
parser.add_argument("--name")
name = parser.parse_args().name
params = json.loads((Path(name) / "out.json").read_text())["params"]
width, height, depth, pattern = (int(params[key]) for key in ("width", "height", "zdim", "pattern"))
runner = SdkRuntime(name)
runner.load()
runner.run()
MODE = {
    "streaming": False,
    "data_type": MemcpyDataType.MEMCPY_32BIT,
    "order": MemcpyOrder.ROW_MAJOR,
    "nonblock": False,
}
given = np.random.default_rng(3).random((height, width, depth)).astype(np.float32)
runner.memcpy_h2d(runner.get_id("a"), given.ravel(), 0, 0, width, height, depth, **MODE)
runner.launch("run", nonblock=False)
found = np.zeros(given.size, np.float32)
runner.memcpy_d2h(found, runner.get_id("b"), 0, 0, width, height, depth, **MODE)
runner.stop()
radius = pattern - 1
inner = np.s_[radius : height - radius, radius : width - radius]
wanted = -given
for d in range(1, pattern):
    for axis in (0, 1):
        for step in (d, -d):
            wanted = wanted + np.roll(given, step, axis) / np.float32(d + 1)
np.testing.assert_allclose(found.reshape(given.shape)[inner], wanted[inner], rtol=1e-4, atol=1e-5)
