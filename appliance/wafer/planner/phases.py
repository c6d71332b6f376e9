"""How long the phases of a job take outside of its training steps, on the real cluster.

Constants and rates from three logged jobs (calibration data, "time constants seen in logs": CS-2
BERT-large 2024-04, CS-2 LLaMA-7B 2024-03, CS-3 Llama2-7B 2025-10) and five checkpoint times. Where
a phase depends on the model's size, two numbers (fixed seconds, seconds per billion parameters)
stand for it; elsewhere the mean of the logs. All seconds are simulated.
"""

from dataclasses import dataclass

from appliance.wafer.hardware import CS3, Machine

INGRESS_SECONDS = 50.0
CACHED_COMPILE_SECONDS = 4.0
TEARDOWN_SECONDS = 20.0
_COMPILE = (771.0, 189.0)
_LOAD_CS2 = (28.0, 2.8)
_LOAD_CS3 = (16.0, 2.8)
_SEND_WEIGHTS_CS2 = (29.0, 8.65)
_SEND_WEIGHTS_CS3 = (3.0, 1.5)
_CHECKPOINT = (8.0, 73.0)
_PROGRAMMING = {"CS-2": 103.0, "CS-3": 232.0}
_BEGIN = {"CS-2": 17.5, "CS-3": 2.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTimes:
    """Simulated seconds of each phase of a job.

    Attributes:
        ingress: From submission until the coordinator answers.
        compile: The program's compilation, not cached.
        cached_compile: The same when the result is in the cache.
        load: From preparing until weights are sent.
        send_weights: Initial weights to MemoryX.
        programming: The wafer's programming.
        begin: From programmed to running.
        teardown: After the last step.
    """

    ingress: float
    compile: float
    cached_compile: float
    load: float
    send_weights: float
    programming: float
    begin: float
    checkpoint: float
    teardown: float

    @property
    def until_running(self) -> float:
        """From the execute job's submission until the run begins, as the client's log shows it."""
        return self.ingress + self.load + self.send_weights + self.programming + self.begin

    @property
    def overhead(self) -> float:
        """Everything before the first step with a cached compile, and the end."""
        return self.ingress + self.cached_compile + self.until_running + self.teardown


def phase_times(num_parameters: float, machine: Machine) -> PhaseTimes:
    """Return the phases of a job that trains a model of some size.

    Args:
        num_parameters: Trainable elements.
        machine: CS-3 has its own numbers; any other machine has those of the CS-2.
    """
    billions = num_parameters / 1e9
    generation = "CS-3" if machine.name == CS3.name else "CS-2"
    send = _SEND_WEIGHTS_CS3 if generation == "CS-3" else _SEND_WEIGHTS_CS2
    load = _LOAD_CS3 if generation == "CS-3" else _LOAD_CS2
    return PhaseTimes(
        ingress=INGRESS_SECONDS,
        compile=_linear(_COMPILE, billions),
        cached_compile=CACHED_COMPILE_SECONDS,
        load=_linear(load, billions),
        send_weights=_linear(send, billions),
        programming=_PROGRAMMING[generation],
        begin=_BEGIN[generation],
        checkpoint=_linear(_CHECKPOINT, billions),
        teardown=TEARDOWN_SECONDS,
    )


def _linear(rate: tuple[float, float], billions: float) -> float:
    fixed, slope = rate
    return fixed + slope * billions
