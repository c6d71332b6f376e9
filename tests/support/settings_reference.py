"""The reference of `appliance up`, docs/settings.md, from the settings and the environment."""

from collections.abc import Iterator

from appliance import settings
from appliance.management.options.combined_settings import ManagementOptions
from appliance.management.options.setting_field import PlacedSetting, settings_of

_TITLES = {
    "": "The cluster",
    "listen": "Network",
    "trust": "Access",
    "runs": "Execution of jobs",
    "queue": "Queue and lifetime of jobs",
    "nodes": "Launchers and nodes",
    "keeping": "Retention and storage",
    "telling": "Notifications and traces",
}

_HEAD = """\
# Settings of `appliance up`

Generated from the code by `SETTINGS_WRITE=1 pytest tests/architecture/test_settings_page.py`.

In docker-compose.yml they are the arguments of `management`, in the chart `management.extraArgs`
where no value of its own sets them. `--data-dir` and `--foreground` come besides. Variables of the
client and of csctl: [csctl.md](csctl.md).
"""


_OWN = {
    "WSC_CSL_CHECKS": "`0`: `cs_python` does not look for accesses beyond an array",
    "WSC_CSL_TASK_CYCLES": "cycles after which `cs_python` ends code without an end; 1000000000",
    "WSC_CS_PYTHON_PACKAGES": "directory with the NumPy of host programs; `none` for ours",
    "WSC_CS_PYTHON_PATH": "the search path of `cs_python`'s child",
    "WSC_CS_PYTHON_TRACEBACK": "whether `cs_python --traceback` was called, for its child",
    "WSC_JOB": "a pod's job, for what it starts",
    "WSC_POD_ADDRESS": "a pod's address on Kubernetes, from the downward API",
    "WSC_SDK_JOB_TRACE": "where an SDK job's programs write their trace",
    "WSC_SDK_MACHINE_CODE": "where the simulator's machine code is kept",
    "WSC_SDK_SYSTEM": "that an SDK job holds a system",
}
"""Variables that one of our processes sets for another."""


def reference() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *_tables(), *_environment(), ""])


def _tables() -> Iterator[str]:
    found: dict[str, list[PlacedSetting]] = {}
    for each in settings_of(ManagementOptions):
        found.setdefault(each.group, []).append(each)
    for group, members in found.items():
        yield f"## {_TITLES[group]}\n"
        yield "| option | default | meaning |"
        yield "|---|---|---|"
        yield from map(_row, members)
        yield ""


def _row(each: PlacedSetting) -> str:
    flag = each.about.flag or f"--{each.name.replace('_', '-')}"
    default = each.about.shown or _shown(each.default)
    return f"| `{flag}` | {default} | {each.about.help} |"


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"{default:g}" if isinstance(default, float) else str(default) or "none"


def _environment() -> Iterator[str]:
    text = settings.__doc__ or ""
    yield "## The environment\n"
    yield from (line for line in text.splitlines() if line.startswith("|"))
    yield "\nThese the appliance sets for its own processes; setting them yourself has no use:\n"
    yield "| variable | what it tells |"
    yield "|---|---|"
    yield from (f"| `{name}` | {text} |" for name, text in _OWN.items())
