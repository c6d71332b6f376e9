"""What holds for all tests."""

import os

from hypothesis import settings

# How long an example takes says how busy the machine is, not whether the code is right; and what a
# run tests must not depend on chance. `HYPOTHESIS_PROFILE=search` looks for new counterexamples.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
