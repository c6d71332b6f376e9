"""Names of the readings that more than one program knows; each pod reports its own with heartbeats.

The simulated ones say what a real wafer would have done; the wall ones what this machine did.
"""

from collections.abc import Mapping
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
GENERATED_TOKENS: Final = "wsc_csx_generated_tokens_total"
"""Tokens that this system's samples have got in the session, of a program that generates."""
GENERATION_PASSES: Final = "wsc_csx_generation_passes_total"
"""How often this system has run the program for them: once for each position."""
GENERATED_RATE: Final = "wsc_csx_generated_tokens_per_second"
"""Tokens over the wall time of the session so far; the systems' rates add up to the job's."""
SIMULATED_GENERATED_RATE: Final = "wsc_csx_simulated_generated_tokens_per_second"
"""The same over the simulated time."""
INPUT_WAIT: Final = "wsc_csx_input_wait_seconds"
"""Wall time that this system has waited for batches in the session."""
INPUT_WAIT_NOW: Final = "wsc_csx_input_wait_now_seconds"
"""Wall time that this system has waited so far for the batch that it needs now; 0 if it has it."""
WALL_STEP: Final = "wsc_csx_step_seconds"
"""Wall time of the last step on this machine, pacing included."""
WALL_TOTAL: Final = "wsc_csx_wall_seconds"
"""Wall time of all steps that the session has completed."""
BATCH_LOADING: Final = "wsc_input_dataloader_seconds_total"
"""Wall time that the user's dataloader took in the session for an input worker's batches."""
MEMORYX_UPDATE: Final = "wsc_memoryx_update_seconds_total"
"""Time that MemoryX spent on updates and outputs, waiting aside."""
MEMORYX_SUMS_WAIT: Final = "wsc_memoryx_sums_wait_seconds_total"
"""Time that MemoryX waited for summed gradients."""
MEMORYX_EXCHANGE_WAIT: Final = "wsc_memoryx_exchange_wait_seconds_total"
"""Time that a shard of MemoryX waited for values that others compute."""
MEMORYX_MASK_CHANGES: Final = "wsc_memoryx_mask_changes_total"
"""Changes of masks in the session, each counted for every weight that is streamed by the mask."""
POD_ANONYMOUS: Final = "wsc_pod_anonymous_bytes"
POD_SHARED: Final = "wsc_pod_shared_bytes"
POD_PROCESSORS: Final = "wsc_pod_processors"
"""Processor time of the pod's own process since its last report, over wall time."""

HELP: Final[Mapping[str, str]] = {
    SIMULATED_STEP: "Simulated: time of one step of all systems together.",
    SIMULATED_TOTAL: "Simulated: time of all steps of the session.",
    SIMULATED_RATE: "Simulated: samples per second of this system's share.",
    SIMULATED_UTILIZATION: "Simulated: multiply-adds done over those possible.",
    SIMULATED_WEIGHT_STREAM: "Simulated: weights into this system, averaged over a step.",
    SIMULATED_GRADIENT_STREAM: "Simulated: gradients out of this system, averaged over a step.",
    GENERATED_TOKENS: "Tokens that a system has generated.",
    GENERATION_PASSES: "Passes over positions in which it did.",
    GENERATED_RATE: "Generated tokens per second of wall time.",
    SIMULATED_GENERATED_RATE: "Simulated: generated tokens per second.",
    WALL_STEP: "Wall time of the last step on this machine, pacing included.",
    WALL_TOTAL: "Wall time of all steps of the session.",
    MEMORYX_UPDATE: "Time that MemoryX spent on updates and outputs, waiting aside.",
    MEMORYX_SUMS_WAIT: "Time that MemoryX waited for summed gradients.",
    MEMORYX_EXCHANGE_WAIT: "Time that a MemoryX shard waited for values of other shards.",
    MEMORYX_MASK_CHANGES: "Changes of masks by which weights are streamed.",
    "wsc_swarmx_broadcast_copied_bytes": "Weights that SwarmX copied into the broadcast ring.",
    "wsc_swarmx_broadcast_sent_bytes": "Weights that SwarmX sent to other nodes.",
    "wsc_swarmx_reduced_bytes": "Gradients that SwarmX was sent from below, to be added up.",
    "wsc_csx_pace_wait_seconds": "Time that a system waited to keep the simulated pace.",
    "wsc_csx_input_wait_seconds": "Time that a system waited for its batch.",
    "wsc_csx_input_starved_steps_total": "Steps at whose beginning no batch was there.",
    "wsc_csx_weight_wait_seconds": "Time that a system waited for weights.",
    "wsc_csx_kept_weight_bytes": "Weights that a system keeps from forward to backward pass.",
    "wsc_csx_layer_steps_held": "Layer steps whose weights a system holds.",
    "wsc_csx_weight_bytes": "Weights that a system holds.",
    "wsc_csx_weight_peak_bytes": "Most weights that a system held.",
    "wsc_csx_activation_peak_bytes": "Most activations that a system held.",
    "wsc_input_starved_seconds_total": "Time that an activation pod waited for samples.",
    BATCH_LOADING: "Time that the user's dataloader took.",
    "wsc_input_idle_seconds_total": "Time that an input worker waited for its batch to be taken.",
    POD_ANONYMOUS: "Memory of a pod that is its own.",
    POD_SHARED: "Memory that a pod shares with others.",
    "wsc_pod_peak_bytes": "Most resident memory of a pod.",
    POD_PROCESSORS: "Processors that a pod has used since its last report.",
}
"""What each reading is, for people; others are told without."""
