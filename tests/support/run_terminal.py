"""A user's shell in which detached runs are submitted: any script will do."""

import os
import pwd
import re
import subprocess
import sys
from pathlib import Path

from tests.support.appliance_process import ROOT, ApplianceProcess, execute_request, wait_for

SCRIPT = """
import os, sys, time
print("cwd", os.getcwd(), "uid", os.getuid(), "restart", os.environ["WSC_RESTART_COUNT"])
print("mine", os.environ.get("MINE"), "secret", os.environ.get("SECRET"), flush=True)
what = sys.argv[1]
if what == "token":
    with open("token.part", "w") as file:
        file.write(os.environ["CSAUTH_TOKEN"])
    os.rename("token.part", "token")
if what in ("wait", "token"):
    time.sleep(600)
if what == "index":
    print("index", os.environ["WSC_ARRAY_INDEX"], "of", os.environ["WSC_ARRAY_SIZE"])
if what == "die" and os.environ["WSC_RESTART_COUNT"] == "0":
    os.kill(os.getpid(), 9)
if what == "raise":
    raise KeyError("sample 7")
sys.exit(int(what) if what.isdigit() else 0)
"""


class Terminal:
    """A user's shell with csctl in the directory of a script."""

    def __init__(self, appliance: ApplianceProcess, work_dir: Path) -> None:
        self.work_dir = work_dir
        (work_dir / "script.py").write_text(SCRIPT)
        self._environment = {
            **os.environ,
            "CSCONFIG_PATH": appliance.state.config_path,
            "PYTHONPATH": str(ROOT),
            "SECRET": "s3cret",
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "csctl", *arguments],
            cwd=self.work_dir,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        assert process.returncode == code, f"{out}\n{err}"
        assert "Traceback" not in err
        return out + err

    def submit(self, what: str, *options: str) -> str:
        said = self.run("submit", *options, "--", sys.executable, "script.py", what)
        found = re.search(r"job/(wsjob-\w+)", said)
        assert found, said
        return found[1]

    def submit_as_script(self, appliance: ApplianceProcess, *, num_systems: int) -> str:
        """Submit an execute job as the script does that was told `token`."""
        token = self.work_dir / "token"
        wait_for(token.exists, what="the script's token")
        me = pwd.getpwuid(os.getuid())
        of_script = (
            ("auth-uid", str(me.pw_uid)),
            ("auth-gid", str(me.pw_gid)),
            ("auth-username", me.pw_name),
            ("auth-token", token.read_text()),
        )
        token.unlink()
        request = execute_request(num_systems, 1)
        return appliance.cluster.InitExecuteJob(request, metadata=of_script).job_id
