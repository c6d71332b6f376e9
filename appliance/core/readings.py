"""Names of the readings that more than one program knows; each pod reports its own with heartbeats.

The simulated ones say what a real wafer would have done; the wall ones what this machine did.
"""

from typing import Final

SIMULATED_STEP: Final = "wsc_csx_simulated_step_seconds"
"""One step of all systems together; they go in step, so it is the same for each."""
SIMULATED_TOTAL: Final = "wsc_csx_simulated_seconds"
"""All steps that the session has completed."""
SIMULATED_RATE: Final = "wsc_csx_simulated_samples_per_second"
"""Of this system's share of the batch; the systems' rates add up to the job's."""
SIMULATED_UTILIZATION: Final = "wsc_csx_simulated_utilization_ratio"
"""Dense multiply-adds done over those possible, of this system."""
SIMULATED_WEIGHT_STREAM: Final = "wsc_csx_simulated_weight_bytes_per_second"
"""Weights into this system, averaged over a step."""
SIMULATED_GRADIENT_STREAM: Final = "wsc_csx_simulated_gradient_bytes_per_second"
"""Gradients out of this system, averaged over a step."""
RESIDENT_WEIGHTS: Final = "wsc_csx_resident_weight_bytes"
"""What this system keeps of what layer steps load: all in pipelined execution, else nothing."""
INPUT_WAIT: Final = "wsc_csx_input_wait_seconds"
"""Wall time that this system has waited for batches in the session."""
INPUT_WAIT_NOW: Final = "wsc_csx_input_wait_now_seconds"
"""Wall time that this system has waited so far for the batch that it needs now; 0 if it has it."""
WALL_STEP: Final = "wsc_csx_step_seconds"
"""Wall time of the last step on this machine, pacing included."""
WALL_TOTAL: Final = "wsc_csx_wall_seconds"
"""Wall time of all steps that the session has completed."""
