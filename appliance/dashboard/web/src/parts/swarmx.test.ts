import { expect, it } from "vitest";
import { type Connection, layOutTree } from "./swarmx";

const pod = (name: string, pods: string[], systems: string[]): Connection => ({
  pod: `wsjob-a-${name}`,
  node: "node0",
  systems,
  pods: pods.map((each) => `wsjob-a-${each}`),
  switches: [],
  is_one_hop: false,
  memory_mib: null,
});
const names = (first: number, end: number): string[] => Array.from({ length: end - first }, (_, index) => `systemf${first + index}`);
const five = [
  pod("weight-0", [], []),
  pod("broadcastreduce-0", ["broadcastreduce-1"], ["systemf4"]),
  pod("broadcastreduce-1", ["broadcastreduce-2", "broadcastreduce-3"], []),
  pod("broadcastreduce-2", [], names(0, 2)),
  pod("broadcastreduce-3", [], names(2, 4)),
  pod("chief-0", [], ["systemf0"]),
];

it("draws every SwarmX pod and every system once, each below what sends to it", () => {
  const { boxes, edges } = layOutTree(five);
  expect(boxes.map((box) => box.label).sort()).toEqual(
    ["MemoryX", ...[0, 1, 2, 3].map((each) => `broadcastreduce-${each}`), ...names(0, 5)].sort(),
  );
  const x = new Map(boxes.map((box) => [box.id, box.x]));
  for (const edge of edges) expect(x.get(edge.from)).toBeLessThan(x.get(edge.to) as number);
  expect(edges.length).toBe(boxes.length - 1);
});

it("keeps boxes apart and inside the picture, however many systems there are", () => {
  const many = [
    pod("broadcastreduce-0", Array.from({ length: 12 }, (_, index) => `broadcastreduce-${index + 1}`), []),
    ...Array.from({ length: 12 }, (_, index) => pod(`broadcastreduce-${index + 1}`, [], names(16 * index, 16 * index + 16))),
  ];
  for (const shown of [five, many]) {
    const { boxes, width, height } = layOutTree(shown);
    for (const box of boxes) {
      expect(box.x).toBeGreaterThanOrEqual(0);
      expect(box.x + box.width).toBeLessThanOrEqual(width);
      expect(box.y).toBeGreaterThanOrEqual(0);
      expect(box.y + box.height).toBeLessThanOrEqual(height);
    }
    for (const one of boxes) {
      const isOver = (box: typeof one): boolean => Math.abs(box.x - one.x) < box.width && Math.abs(box.y - one.y) < box.height;
      expect(boxes.filter(isOver)).toEqual([one]);
    }
  }
  expect(layOutTree(many).boxes.map((box) => box.label)).toContain("systemf0 and 15 more");
});
