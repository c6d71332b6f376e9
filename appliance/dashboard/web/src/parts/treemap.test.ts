import { expect, it } from "vitest";
import { cellName, cellText, withoutSmall } from "./treemap";

const text = (module: string, width: number, height: number): { lines: string[]; isUpright: boolean } =>
  cellText({ module, direction: "fwd", seconds: 1 }, "7.32 %", width, height);

it("writes a name whole where it fits, and cuts no part of it from the left", () => {
  expect(text("blocks.0", 200, 100)).toEqual({ lines: ["blocks.0", "fwd 7.32 %"], isUpright: false });
  expect(text("blocks.0", 75, 75).lines).toEqual(["blocks.0", "fwd"]);
  expect(text("model.blocks.0.fc1", 100, 100).lines[0]).toBe("blocks.0.fc1");
  expect(text("model.blocks.0", 62, 62).lines[0]).toBe("blocks\u2026");
  expect(text("embedding_layer", 80, 60).lines[0]).toBe("embeddin\u2026");
  expect(text("blocks.0", 40, 200)).toEqual({ lines: ["blocks.0 fwd"], isUpright: true });
  expect(text("blocks.0", 60, 200)).toEqual({ lines: ["blocks.0", "fwd 7.32 %"], isUpright: true });
  expect(text("blocks.0", 200, 30).lines).toEqual(["blocks.0 fwd"]);
  expect(text("blocks.0", 80, 30).lines).toEqual(["blocks.0"]);
  expect(text("blocks.0", 200, 10).lines).toEqual([]);
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
