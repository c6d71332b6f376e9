import { describe, expect, it } from "vitest";
import { align, merge, StepCounter, thin } from "./curves";

describe("curves", () => {
  it("grow at their end", () => {
    expect(merge({ loss: [{ step: 1, value: 5 }] }, { loss: [{ step: 2, value: 4 }], lr: [{ step: 2, value: 0.1 }] })).toEqual({
      loss: [
        { step: 1, value: 5 },
        { step: 2, value: 4 },
      ],
      lr: [{ step: 2, value: 0.1 }],
    });
  });

  it("keep their spikes when thinned", () => {
    const curve = Array.from({ length: 10_000 }, (_, step) => ({ step, value: step === 5_003 ? 99 : 1 }));
    const thinned = thin(curve, 200);
    expect(thinned.length).toBeLessThanOrEqual(200);
    expect(thinned.some((point) => point.value === 99)).toBe(true);
  });

  it("count steps on through the sessions of a job", () => {
    const counter = new StepCounter();
    const at = (session: number, step: number) => ({ session, step, value: step });
    expect(counter.place([at(1, 1), at(1, 2), at(2, 1)]).map((each) => each.step)).toEqual([1, 2, 3]);
    expect(counter.place([at(2, 2), at(3, 1)]).map((each) => each.step)).toEqual([4, 5]);
  });

  it("share one axis, with gaps where one has no value", () => {
    const first = [
      { step: 1, value: 5 },
      { step: 3, value: 3 },
    ];
    const second = [
      { step: 2, value: 8 },
      { step: 3, value: 7 },
      { step: 3, value: 6 },
    ];
    expect(align([first, second])).toEqual({
      x: [1, 2, 3],
      values: [
        [5, null, 3],
        [null, 8, 6],
      ],
    });
  });
});
