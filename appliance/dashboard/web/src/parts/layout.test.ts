import { expect, it } from "vitest";
import { layOut, layOutTall } from "./layout";

const flow = (count: number) => ({
  systems: Array.from({ length: count }, (_, index) => `systemf${index}`),
  weights: 1e9,
  gradients: null,
  samples: 12,
});
const picture = (count: number) => layOut(flow(count), (n) => `${n} B/s`, (n) => `${n} samples/s`);

it("keeps every box inside the picture and apart from the others", () => {
  for (const count of [0, 1, 2, 8, 192]) {
    const { boxes, height, width } = picture(count);
    for (const box of boxes) {
      expect(box.x).toBeGreaterThanOrEqual(0);
      expect(box.x + box.width).toBeLessThanOrEqual(width);
      expect(box.y).toBeGreaterThanOrEqual(0);
      expect(box.y + box.height).toBeLessThanOrEqual(height);
    }
    const places = new Set(boxes.map((box) => `${box.x}/${box.y}`));
    expect(places.size).toBe(boxes.length);
  }
});

it("names what it does not show", () => {
  expect(picture(192).boxes.map((box) => box.label)).toContain("and 184 more");
});

it("writes a rate only where one is known", () => {
  const labels = picture(2).edges.map((edge) => edge.label).filter(Boolean);
  expect(labels).toEqual(["12 samples/s", "1000000000 B/s"]);
});

it("stands upright on a phone, with what flows beside the edges", () => {
  for (const count of [0, 1, 2, 192]) {
    const { boxes, width, height, edges } = layOutTall(flow(count), (n) => `${n} B/s`, (n) => `${n} samples/s`);
    expect(boxes.length).toBe(5);
    expect(boxes.every((box) => box.x >= 0 && box.x + box.width <= width && box.y + box.height <= height)).toBe(true);
    expect(edges.map((edge) => edge.label).filter(Boolean)).toEqual(["12 samples/s", "1000000000 B/s"]);
  }
  expect(layOutTall(flow(192), String, String).boxes[2]?.label).toBe("192 systems");
});
