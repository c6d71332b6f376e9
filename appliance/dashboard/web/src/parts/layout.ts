/** Where the boxes of the topology picture stand: pure geometry. */

export interface Box {
  id: string;
  label: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Edge {
  from: string;
  to: string;
  label: string;
}

export interface Picture {
  width: number;
  height: number;
  boxes: Box[];
  edges: Edge[];
}

export interface Flow {
  /** Names of the systems shown. */
  systems: readonly string[];
  /** Bytes per second from MemoryX to the systems, and back; null when nothing is known. */
  weights: number | null;
  gradients: number | null;
  samples: number | null;
}

const WIDTH = 820;
const BOX = { width: 118, height: 44 };
const MAX_SHOWN = 8;

const TALL = { width: 320, boxWidth: 190, pitch: 84, boxHeight: 42 };

/** The same from top to bottom, for a phone: the systems are one box. */
export function layOutTall(flow: Flow, describe: (bytes: number) => string, describeSamples: (n: number) => string): Picture {
  const systems = flow.systems.length <= 2 ? flow.systems.join(", ") : `${flow.systems.length} systems`;
  const names = [
    ["user", "User node"],
    ["input", "Input workers"],
    ["system-0", systems || "no system"],
    ["swarmx", "SwarmX"],
    ["memoryx", "MemoryX"],
  ] as const;
  const boxes = names.map(([id, label], index) => ({
    id,
    label,
    x: (TALL.width - TALL.boxWidth) / 2,
    y: 4 + index * TALL.pitch,
    width: TALL.boxWidth,
    height: TALL.boxHeight,
  }));
  const written = (bytes: number | null): string => (bytes === null ? "" : describe(bytes));
  const edges: Edge[] = [
    { from: "user", to: "input", label: flow.samples === null ? "" : describeSamples(flow.samples) },
    { from: "input", to: "system-0", label: "" },
    { from: "swarmx", to: "system-0", label: "" },
    { from: "memoryx", to: "swarmx", label: written(flow.weights) },
    { from: "swarmx", to: "memoryx", label: written(flow.gradients) },
  ];
  return { width: TALL.width, height: TALL.pitch * (names.length - 1) + TALL.boxHeight + 8, boxes, edges };
}

/** Lay out user node - input - systems - SwarmX - MemoryX from left to right. */
export function layOut(flow: Flow, describe: (bytes: number) => string, describeSamples: (n: number) => string): Picture {
  const shown = flow.systems.slice(0, MAX_SHOWN);
  const hidden = flow.systems.length - shown.length;
  const names = hidden > 0 ? [...shown, `and ${hidden} more`] : [...shown];
  const pitch = BOX.height + 14;
  const height = Math.max(names.length * pitch, pitch * 2) + 30;
  const middle = height / 2 - BOX.height / 2;
  const column = (index: number): number => 10 + (index * (WIDTH - BOX.width - 20)) / 4;
  const at = (id: string, label: string, col: number, y: number): Box => ({ id, label, x: column(col), y, ...BOX });
  const top = middle - ((names.length - 1) * pitch) / 2;
  const systems = names.map((name, index) => at(`system-${index}`, name, 2, top + index * pitch));
  const both = (bytes: number | null): string => (bytes === null ? "" : describe(bytes));
  const edges: Edge[] = [
    { from: "user", to: "input", label: flow.samples === null ? "" : describeSamples(flow.samples) },
    ...systems.flatMap((box) => [
      { from: "input", to: box.id, label: "" },
      { from: "swarmx", to: box.id, label: "" },
    ]),
    { from: "memoryx", to: "swarmx", label: both(flow.weights) },
    { from: "swarmx", to: "memoryx", label: both(flow.gradients) },
  ];
  const boxes = [
    at("user", "User node", 0, middle),
    at("input", "Input workers", 1, middle),
    ...systems,
    at("swarmx", "SwarmX", 3, middle),
    at("memoryx", "MemoryX", 4, middle),
  ];
  return { width: WIDTH, height, boxes, edges };
}
