import { expect, it } from "vitest";
import { axisNumbers, stepTime } from "./waferTime";

const layer = { simulated_seconds: 317, simulated_compute_seconds: 209, simulated_change_seconds: 100 };

it("says what a step consists of, with nothing left over", () => {
  const time = stepTime({ layers: [layer, layer], num_micro_batches: 2, simulated_step_seconds: 1300, simulated_boundary_seconds: 32 });
  expect(time?.parts.map((each) => each.seconds)).toEqual([836, 400, 32, 32]);
  expect(time?.parts.reduce((sum, each) => sum + each.seconds, 0)).toBe(time?.total);
});

it("says nothing of a picture that does not tell it", () => {
  expect(stepTime({ layers: [layer] })).toBeUndefined();
});

it("numbers a side from 0 to its end", () => {
  expect(axisNumbers(750)).toEqual([0, 200, 400, 600, 750]);
  expect(axisNumbers(994)).toEqual([0, 200, 400, 600, 800, 994]);
});

it("takes what adding in another order leaves for no time", () => {
  const uneven = { simulated_seconds: 0.3, simulated_compute_seconds: 0.1, simulated_change_seconds: 0.2 };
  const time = stepTime({ layers: [uneven], num_micro_batches: 1, simulated_step_seconds: 0.6 + 1e-13, simulated_boundary_seconds: 0.3 });
  expect(time?.parts.map((each) => each.seconds)).toEqual([0.1, 0.2, 0, 0.3]);
});
