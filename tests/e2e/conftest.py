"""A real browser, which must find nothing to complain about, against running appliances."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.support.appliance import ROOT, Appliance
from tests.support.appliance import running_appliance as running_whole_appliance
from tests.support.appliance_process import ApplianceProcess, running_appliance
from tests.support.client import PROGRAMS, client_environment, start_client
from tests.support.start_costs import counted

CHROMIUM = Path("/usr/bin/chromium")
PATIENCE_MS = 120_000
"""Against what never comes; a busy machine is slow."""
expect.set_options(timeout=PATIENCE_MS)
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    assert CHROMIUM.exists(), "there is no /usr/bin/chromium; run `make packages`"
    with sync_playwright() as playwright:
        with counted("browsers"):
            started = playwright.chromium.launch(
                executable_path=CHROMIUM, args=list(ARGUMENTS), timeout=PATIENCE_MS
            )
        yield started
        started.close()


class Watched:
    """A page that remembers every complaint of the browser.

    Attributes:
        page: The page.
        complaints: Errors and warnings of the console, failed and foreign requests.
    """

    def __init__(self, context: BrowserContext, root: str) -> None:
        self.root = root
        self.complaints: list[str] = []
        self.page: Page = context.new_page()
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", self._on_request)
        self.page.on("response", self._on_response)

    def open(self, path: str) -> Page:
        """Go to a page."""
        self.page.goto(self.root + path)
        return self.page

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console {message.type}: {message.text}")

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith((self.root, "data:", "blob:")):
            self.complaints.append(f"request to elsewhere: {request.url}")

    def _on_response(self, response: Any) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status} for {response.url}")


NO_INTERVALS = "window.setInterval = () => 0"
"""Takes from a page what asks again by itself: what it then shows anew, it was told of."""

Opener = Callable[..., Watched]


@pytest.fixture
def opener(browser: Browser) -> Iterator[Callable[..., Watched]]:
    """Open watched pages; at the end none may have complained."""
    contexts: list[BrowserContext] = []
    opened: list[Watched] = []

    def open_page(root: str, *, asks_again: bool = True, **options: Any) -> Watched:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(PATIENCE_MS)
        if not asks_again:
            context.add_init_script(NO_INTERVALS)
        contexts.append(context)
        opened.append(Watched(context, root))
        return opened[-1]

    yield open_page
    for context in contexts:
        context.close()
    assert [complaint for each in opened for complaint in each.complaints] == []


def rest_root(appliance: Appliance) -> str:
    """Return the root URL of a whole appliance's REST interface."""
    text = appliance.command("status", program="appliance")
    line = next(line for line in text.splitlines() if line.split()[:1] == ["REST"])
    return line.split()[1].removesuffix("/api/v1")


@pytest.fixture(scope="session")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    """Return an appliance on which the client has trained a GPT."""
    with running_whole_appliance(tmp_path_factory.mktemp("trained"), "--systems", "2") as running:
        start_client(
            tmp_path_factory.mktemp("client"),
            *("--model", "gpt_adamw", "--steps", "12", "--num-csx", "2"),
            *("--job-label", "name=browser", "--save", "{step}.mdl", "--checkpoint-steps", "6"),
            address=running.address,
        ).result()
        yield running


@pytest.fixture(scope="session")
def trained(used: Appliance) -> tuple[str, str]:
    """Return the root URL of an appliance, and the job with which the client trained a GPT."""
    names = [
        str(job["meta"]["name"])
        for job in used.jobs("-l", "name=browser")
        if job["spec"]["type"] == "execute"
    ]
    return rest_root(used), names[0]


@pytest.fixture(scope="session")
def swept(
    used: Appliance, trained: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str]:
    """Return the root URL of that appliance, and an array of two runs that have trained there."""
    script = PROGRAMS / "sweep.py"
    text = f"python {script} --run $WSC_ARRAY_INDEX --out $WSC_ARRAY_INDEX.json"
    array = ran_array(used, tmp_path_factory.mktemp("sweep"), "sweep", "sh", "-c", text)
    return trained[0], array


@pytest.fixture(scope="session")
def broken(used: Appliance, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the root URL of that appliance, and an array of two runs; the second fails."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "fails.py").write_text(FAILS)
    return rest_root(used), ran_array(used, folder, "broken", sys.executable, "fails.py")


FAILS = """import os
print({"0": "fine"}[os.environ["WSC_ARRAY_INDEX"]])
"""


def ran_array(used: Appliance, folder: Path, name: str, *program: str) -> str:
    """Run a program in a folder as an array of two that is called so, and return the array's id."""
    environment = client_environment() | {
        "CSCONFIG_PATH": str(used.config_path),
        "PYTHONPATH": str(ROOT),
    }

    def csctl(*arguments: str, check: bool) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "csctl", *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=check,
        )
        return done.stdout + done.stderr

    said = csctl("submit", "--array", "0-1", "--name", name, "--", *program, check=True)
    for index in range(2):
        csctl("attach", f"{name}.{index}", check=False)
    return re.findall(r"array-[a-z0-9]{22}", said)[0]


@contextmanager
def finished_job(factory: pytest.TempPathFactory, *arguments: str) -> Iterator[tuple[str, str]]:
    """Yield the root URL of an appliance, and the execute job of a client's run there."""
    with running_whole_appliance(factory.mktemp("appliance")) as running:
        start_client(factory.mktemp("client"), *arguments, address=running.address).result()
        job = next(job for job in running.jobs() if job["spec"]["type"] == "execute")
        yield rest_root(running), str(job["meta"]["name"])


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[ApplianceProcess]:
    """Return an appliance of two systems whose jobs run but do nothing."""
    with idle_appliance(tmp_path / "data") as running:
        yield running


@contextmanager
def idle_appliance(data_dir: Path, *arguments: str) -> Iterator[ApplianceProcess]:
    """Run an appliance of two systems whose jobs run but do nothing."""
    with running_appliance(
        data_dir, "--systems", "2", "--lease-seconds", "900", *arguments
    ) as running:
        yield running
