import { expect, it } from "vitest";
import { cellName, cellText, withoutSmall } from "./treemap";

it("writes a name whole where it fits, and never cuts it from the left", () => {
  expect(cellText("blocks.0 fwd", 200, 100)).toMatchObject({ text: "blocks.0 fwd", isUpright: false, hasShare: true });
  expect(cellText("model.blocks.0.fc1 fwd", 100, 100).text).toBe("0.fc1 fwd");
  expect(cellText("embedding_layer fwd", 80, 60).text).toBe("embeddin\u2026");
  expect(cellText("blocks.0 fwd", 40, 200)).toMatchObject({ text: "blocks.0 fwd", isUpright: true });
  expect(cellText("blocks.0 fwd", 200, 30).hasShare).toBe(false);
  expect(cellText("blocks.0 fwd", 200, 10).text).toBe("");
});

it("puts modules together that are too small for words, and loses no time", () => {
  const modules = [
    { module: "big", direction: "fwd", seconds: 0.98 },
    ...Array.from({ length: 20 }, (_, index) => ({ module: `small${index}`, direction: "fwd", seconds: 0.001 })),
  ];
  const merged = withoutSmall(modules, 900 * 320);
  expect(merged.map(cellName)).toEqual(["big fwd", "20 smaller modules"]);
  expect(merged.reduce((sum, each) => sum + each.seconds, 0)).toBeCloseTo(1);
  expect(withoutSmall(modules.slice(0, 1), 900 * 320)).toEqual(modules.slice(0, 1));
});
