"""Everything that the SDK's client does, in one process: compile, launch, drive, look, fail."""

import json
import sys
import tarfile
from pathlib import Path

import numpy as np
from cerebras.appliance.pb.sdk.sdk_common_pb2 import MemcpyDataType, MemcpyOrder
from cerebras.sdk.client import SdkCompiler, SdkLauncher, SdkRuntime
from cerebras.sdk.client.debug_util import debug_util

SOURCES = sys.argv[1]
OPTIONS = (
    f"--arch={sys.argv[2]} --fabric-dims=11,4 --fabric-offsets=4,1 "
    "--params=width:4,height:2,n:8 -o out --memcpy --channels=1"
)
WHOLE = (0, 0, 4, 2)
WORDS = {
    "streaming": False,
    "data_type": MemcpyDataType.MEMCPY_32BIT,
    "order": MemcpyOrder.ROW_MAJOR,
}
HALVES = {**WORDS, "data_type": MemcpyDataType.MEMCPY_16BIT, "nonblock": False}


def failure(action):
    try:
        action()
    except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
        return f"{type(error).__name__}: {error}"
    return ""


def compile_():
    with SdkCompiler() as compiler:
        return compiler.compile(SOURCES, "layout.csl", OPTIONS, ".")


def compile_broken():
    Path("broken").mkdir(exist_ok=True)
    Path("broken/layout.csl").write_text("layout {\n  @set_rectangle(1, 1);\n  nowhere();\n}\n")
    with SdkCompiler() as compiler:
        compiler.compile("broken", "layout.csl", OPTIONS, ".")


def launch(artifact, found):
    Path("extra").mkdir(exist_ok=True)
    Path("extra/a.txt").write_text("staged")
    with SdkLauncher(artifact, simulator=True) as launcher:
        launcher.stage(f"{SOURCES}/run.py")
        launcher.stage("extra")
        found["launched"] = launcher.run("cs_python run.py --name out", "cat extra/a.txt")
        launcher.download_artifact("sim.log", "./sim.log")
        launcher.download_artifact("out", "./out.tar.gz")
        found["failed_command"] = failure(lambda: launcher.run("echo before; exit 5"))
    with tarfile.open("out.tar.gz") as archive:
        found["downloaded"] = archive.getnames()


def drive(artifact, found):
    x, y = np.arange(128, dtype=np.float32).reshape(2, 64)
    result, late = np.zeros(64, np.float32), np.zeros(64, np.float32)
    times = np.zeros(48, np.uint32)
    with SdkRuntime(artifact, simulator=True) as runtime:
        ids = {name: runtime.get_id(name) for name in ("x", "y", "times")}
        found["bad_symbol"] = failure(lambda: runtime.get_id("nowhere"))
        runtime.memcpy_h2d(ids["x"], x, *WHOLE, 8, nonblock=False, **WORDS)
        waiting = runtime.memcpy_h2d(ids["y"], y, *WHOLE, 8, nonblock=True, **WORDS)
        runtime.launch("axpy", np.float32(0.5), nonblock=True)
        waiting.wait()
        found["wrong_size"] = failure(
            lambda: runtime.memcpy_h2d(ids["x"], x[:3], *WHOLE, 8, nonblock=False, **WORDS)
        )
        runtime.memcpy_d2h(result, ids["y"], *WHOLE, 8, nonblock=False, **WORDS)
        runtime.memcpy_d2h(times, ids["times"], *WHOLE, 6, **HALVES)
        task = runtime.memcpy_d2h(late, ids["y"], *WHOLE, 8, nonblock=True, **WORDS)
        while not task.done():
            pass
        found["bad_target"] = failure(
            lambda: runtime.memcpy_h2d(99, x, *WHOLE, 8, nonblock=True, **WORDS).wait()
        )
        again = np.zeros(64, np.float32)
        runtime.memcpy_d2h(again, ids["y"], *WHOLE, 8, nonblock=True, **WORDS)
        runtime.stop()  # which fetches what was not waited for
        seen = debug_util(artifact, runtime).get_symbol_rect(((4, 1), (4, 2)), "y", np.float32)
    found["result"] = result.tolist()
    found["all_alike"] = bool((result == late).all() and (result == again).all())
    found["is_right"] = bool((result == y + np.float32(0.5) * x).all())
    found["columns_first"] = bool((seen[3, 1] == result.reshape(2, 4, 8)[1, 3]).all())
    found["has_times"] = bool(times.any())


def main():
    found = {}
    artifact = compile_()
    found["artifact"] = artifact
    found["again"] = compile_()
    found["broken"] = failure(compile_broken)
    launch(artifact, found)
    drive(artifact, found)
    print(json.dumps(found))


main()
