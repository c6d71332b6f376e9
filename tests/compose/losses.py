"""Train the GPT example, unchanged, and print its losses to the last bit; arguments are its own."""

import sys

sys.path.insert(0, ".")
import train_gpt

options = train_gpt.parse()
train_gpt.start_backend(options)
losses = train_gpt.Trainer(options).train()
print("LOSSES", *(loss.hex() for loss in losses), flush=True)
