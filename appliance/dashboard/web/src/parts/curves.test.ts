import { describe, expect, it } from "vitest";
import { align, apart, breaks, merge, seriesOf, StepCounter, thin } from "./curves";

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

  it("say where they cease to be finite, also when thinned", () => {
    const curve = [2, null, null, 3, null].map((value, place) => ({ step: place + 1, value }));
    expect(breaks(curve)).toEqual([2, 5]);
    expect(breaks(curve.slice(1))).toEqual([2, 5]);
    expect(breaks(curve.slice(0, 1))).toEqual([]);
    const long = Array.from({ length: 10_000 }, (_, step) => ({ step, value: step < 9_000 ? 1 : null }));
    const [at] = breaks(thin(long, 200));
    expect(at).toBeGreaterThanOrEqual(9_000);
    expect(at).toBeLessThan(9_100);
  });

  it("count steps on through the sessions of a job", () => {
    const counter = new StepCounter();
    const at = (session: number, step: number) => ({ session, step, value: step });
    expect(counter.place([at(1, 1), at(1, 2), at(2, 1)]).map((each) => each.step)).toEqual([1, 2, 3]);
    expect(counter.place([at(2, 2), at(3, 1)]).map((each) => each.step)).toEqual([4, 5]);
  });

  it("of evaluations are not those of training", () => {
    const at = (session: number) => ({ session, step: 1, value: session });
    const found = apart({ loss: [at(1), at(2), at(3)], lr: [at(1)] }, new Set([2]));
    expect(found).toEqual({ loss: [at(1), at(3)], "evaluation: loss": [at(2)], lr: [at(1)] });
    expect(Object.keys(found).map(seriesOf)).toContainEqual({ name: "loss", isEvaluation: true });
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
