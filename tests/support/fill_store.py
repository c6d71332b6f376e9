"""Write small random numbers into every tensor of a store: `python -m tests.support.fill_store`.

Arguments: the store's address and a seed. A process of its own, so that a test can put it into a
control group: memory counts for whoever touches it first.
"""

import sys

import numpy as np

from appliance.streams.store import attach_store
from appliance.streams.topology import STATE_SEGMENT


def main(address, seed):
    generator = np.random.default_rng(seed)
    with attach_store(address) as store:
        memory = store.attach(STATE_SEGMENT)
        for item in store.layout(STATE_SEGMENT).items:
            for row in item.view(memory).reshape(item.type.shape[0], -1):
                row[...] = generator.standard_normal(row.shape, dtype=np.float32) / row.size**0.5


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
