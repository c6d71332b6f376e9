"""What the wafer's timing model is calibrated on and held to: published logs and kernels."""
