"""Takes the pictures of docs/dashboard.md from a real run: `make screenshots`.

Starts an appliance with two systems, trains the example GPT with the public client while a second
job waits, runs a CSL program with a trace, and photographs every page. `make screenshots
LOOK=DIRECTORY` also writes each page for a reviewer, light and dark, as wide as a screen, a tablet
and a phone show it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CLIENT = Path(os.environ["WSC_CLIENT_VENV"])
SDK_CLIENT = Path(
    os.environ.get("WSC_SDK_CLIENT_VENV") or Path.home() / ".cache/wsc/sdk-client-2.10.0"
)
NUM_STEPS = 600
"""More than are made while the pictures are taken, so that all of them show a training."""
SHOWN_STEP = 40
"""The page is photographed when training has come so far."""
WIDTH, HEIGHT = 1280, 860
"""Of the pictures in docs/dashboard.md, in pixels."""
LOOKED_AT = (1440, 768, 390)
"""Widths of the pictures for a reviewer."""


def appliance(*arguments: str) -> str:
    """Run `appliance ...` and return what it printed."""
    command = [sys.executable, "-m", "appliance", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def start_training(work: Path, name: str, num_systems: int) -> subprocess.Popen[bytes]:
    """Start the example with the public client."""
    environment = {
        **os.environ,
        "CSCONFIG_PATH": str(work / "appliance" / "config_v2"),
        "PATH": f"{CLIENT}/bin:{os.environ['PATH']}",
    }
    directory = work / name
    directory.mkdir()
    with (directory / "log").open("wb") as log:
        return subprocess.Popen(
            [
                *("python", str(ROOT / "examples" / "gpt" / "train_gpt.py")),
                *("--num-csx", str(num_systems), "--steps", str(NUM_STEPS)),
                *("--checkpoint-dir", str(directory / "checkpoints")),
            ],
            cwd=directory,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def run_traced(work: Path) -> None:
    """Run examples/csl_sum with the SDK's public client and a trace."""
    directory = work / "sdk"
    directory.mkdir()
    program = ROOT / "tests" / "conformance" / "sdk_client" / "traced.py"
    subprocess.run(
        [str(SDK_CLIENT / "bin" / "python"), str(program), str(ROOT / "examples" / "csl_sum")],
        cwd=directory,
        env={**os.environ, "CSCONFIG_PATH": str(work / "appliance" / "config_v2")},
        check=True,
        capture_output=True,
    )


def take(page: Page, name: str, look: Path | None) -> None:
    """Write the picture of a page, and those for a reviewer where they are asked for."""
    if name != "api":
        page.screenshot(path=HERE / f"{name}.png", full_page=True)
    if look is None:
        return
    for width in LOOKED_AT:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(500)
            page.screenshot(path=look / f"{name}-{width}-{scheme}.png", full_page=True)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


def photograph_fabric(root: str, page: Page, look: Path | None) -> None:
    """Take a picture of a trace in the middle of its run."""
    jobs = get(root, "/jobs?type=sdk-compile&phase=SUCCEEDED")["items"]
    traced = next(
        job["id"] for job in jobs if "SdkTraced" in str(get(root, f"/jobs/{job['id']}/events"))
    )
    page.goto(f"{root}/jobs/{traced}/fabric")
    page.get_by_role("spinbutton", name="Cycle", exact=True).fill("49")
    page.keyboard.press("Tab")
    page.get_by_role("spinbutton", name="Column").fill("2")
    page.wait_for_timeout(1000)
    take(page, "fabric", look)


# `Any`: an answer of the REST API.
def get(root: str, path: str) -> Any:
    """Ask the REST API."""
    with urllib.request.urlopen(f"{root}/api/v1{path}") as answer:
        return json.load(answer)


def wait_for_job(root: str, page: Page, phase: str) -> str:
    """Return the id of the execute job in a phase, as soon as there is one."""
    while True:
        found = get(root, f"/jobs?type=execute&phase={phase}")["items"]
        if found:
            return str(found[0]["id"])
        page.wait_for_timeout(500)


def photograph(root: str, page: Page, running: str, waiting: str, look: Path | None) -> None:
    """Take a picture of every page."""
    while max(pod["step"] for pod in get(root, f"/jobs/{running}")["pods"]) < SHOWN_STEP:
        page.wait_for_timeout(1000)
    paths = {
        "cluster": "/",
        "queue": "/queue",
        "job": f"/jobs/{running}",
        "waiting": f"/jobs/{waiting}",
        "wafer": f"/jobs/{running}/wafer",
        "planner": "/planner",
        "admin": "/admin",
        **({} if look is None else {"api": "/docs"}),
    }
    for name, path in paths.items():
        page.goto(root + path)
        page.wait_for_timeout(2500)
        if name == "planner":
            page.get_by_role("button", name="Estimate").click()
            page.wait_for_timeout(2000)
        if name == "wafer":
            page.get_by_role("combobox", name="Layer step").select_option("2")
            page.wait_for_timeout(500)
        take(page, name, look)


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--look", type=Path, help="directory for the pictures for a reviewer")
    look = parser.parse_args().look
    if look is not None:
        look.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wsc-shots-") as directory:
        work = Path(directory)
        data_dir = ("--data-dir", str(work / "appliance"))
        text = appliance("up", "--systems", "2", "--port", "0", "--rest-port", "0", *data_dir)
        line = next(line for line in text.splitlines() if line.split()[:1] == ["REST"])
        root = line.split()[1].removesuffix("/api/v1")
        trainings = []
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
                )
                page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
                trainings.append(start_training(work, "first", 2))
                running = wait_for_job(root, page, "RUNNING")
                trainings.append(start_training(work, "second", 1))
                waiting = wait_for_job(root, page, "QUEUED")
                photograph(root, page, running, waiting, look)
                run_traced(work)
                photograph_fabric(root, page, look)
                browser.close()
        finally:
            for training in trainings:
                training.kill()
                training.wait()
            appliance("down", *data_dir)


if __name__ == "__main__":
    main()
