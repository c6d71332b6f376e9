/** Where the simulated time of a step goes, and the numbers along the grid: pure. */

interface TimedLayer {
  simulated_seconds: number;
  simulated_compute_seconds: number;
  simulated_change_seconds?: number | null;
}

interface TimedPicture {
  layers: readonly TimedLayer[];
  num_micro_batches?: number | null;
  simulated_step_seconds?: number | null;
  simulated_boundary_seconds?: number | null;
}

export interface Part {
  name: string;
  seconds: number;
  note: string;
}

/** Less than this part of a step is what adding numbers in another order leaves, and no time. */
const ROUNDING = 1e-9;

/** The parts of a step, which add up to it; undefined for a picture of an earlier release, which does not tell them. */
export function stepTime(picture: TimedPicture): { total: number; parts: Part[] } | undefined {
  const { num_micro_batches: passes, simulated_step_seconds: total, simulated_boundary_seconds: boundary } = picture;
  if (passes == null || total == null || boundary == null) return undefined;
  const sum = (of: (layer: TimedLayer) => number): number => passes * picture.layers.reduce((found, layer) => found + of(layer), 0);
  const computing = sum((layer) => layer.simulated_compute_seconds);
  const changing = sum((layer) => layer.simulated_change_seconds ?? 0);
  const left = total - computing - changing - boundary;
  const waiting = left > total * ROUNDING ? left : 0;
  const parts = [
    { name: "Computing", seconds: computing, note: "the grid works on a layer step" },
    { name: "Between layer steps", seconds: changing, note: "kernels change, buffers drain, the command goes to all PEs" },
    { name: "Waiting for streams", seconds: waiting, note: "weights, gradients, activations or input that take longer than the computing" },
    { name: "Between steps", seconds: boundary, note: "last gradients out, their sum, the update, first weights in" },
  ];
  return { total, parts };
}

const STEPS = [10, 20, 50, 100, 200, 250, 500, 1000];
const MOST = 6;

/** Round numbers from 0 along a side of so many PEs, and its end. */
export function axisNumbers(last: number): number[] {
  const step = STEPS.find((each) => last / each <= MOST) ?? Math.ceil(last / MOST);
  const numbers = Array.from({ length: Math.ceil(last / step) }, (_, index) => index * step);
  return [...numbers.filter((each) => last - each > step * 0.4), last];
}
