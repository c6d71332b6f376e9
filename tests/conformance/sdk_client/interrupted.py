"""Runs a command that never ends; the test interrupts or kills it."""

import sys

from cerebras.sdk.client import SdkLauncher

with SdkLauncher(sys.argv[1], simulator=True) as launcher:
    print("begins", flush=True)
    launcher.run("sleep 99999")
