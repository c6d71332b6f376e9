"""One of gigaGPT's programs, unchanged, with a seed, and on the CPU backend without a cluster.

    python run_gigagpt.py CHECKOUT/train.py CONFIG [--backend CPU]

It runs in the client's environment.
"""

import runpy
import sys
from pathlib import Path

import cerebras.pytorch as cstorch
import torch


def main() -> None:
    """Run the program of the command line with what is left of it."""
    torch.manual_seed(1)  # the program draws its first weights and sets no seed
    backend = cstorch.backend

    def without_cluster(kind, *arguments, **options):
        if kind == "CPU":  # which takes no `cluster_config` since 2.5
            options.pop("cluster_config", None)
        return backend(kind, *arguments, **options)

    cstorch.backend = without_cluster
    program = Path(sys.argv[1])
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(program.parent))
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main()
