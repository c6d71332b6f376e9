"""A simulated CS-2: holds activations, and receives one layer step's weights after another."""

from appliance.numerics.waiting_threads import let_waiting_threads_sleep

let_waiting_threads_sleep()  # here, since the modules of the package import torch
