/** Shares of a whole as nested areas; modules of a model by their simulated time. */

import { hierarchy, treemap, treemapSquarify } from "d3-hierarchy";
import type { JSX } from "preact";
import { duration, percent } from "../format";
import { seriesColor } from "./basics";
import type { ModuleTime } from "./modules";
import { cellName, cellText, withoutSmall } from "./treemap";
import { useWidth } from "./width";

interface Node {
  name: string;
  time?: ModuleTime;
  color?: string;
  children?: Node[];
}

const HEIGHT = 320;

export function Treemap({ modules }: { modules: readonly ModuleTime[] }): JSX.Element {
  const [box, width] = useWidth(900, 240);
  const total = modules.reduce((sum, each) => sum + each.seconds, 0);
  const root = hierarchy<Node>(tree(withoutSmall(modules, width * HEIGHT)))
    .sum((node) => node.time?.seconds ?? 0)
    .sort((a, b) => (b.value ?? 0) - (a.value ?? 0));
  const laid = treemap<Node>().tile(treemapSquarify).size([width, HEIGHT]).paddingInner(2).round(true)(root);
  return (
    <div ref={box} style={{ overflow: "hidden" }}>
      <svg width={width} height={HEIGHT} role="img" aria-label="Simulated time of a step by module" style={{ display: "block" }}>
        {laid.leaves().map((leaf) => {
          const { time } = leaf.data;
          if (!time) return null;
          const share = percent(time.seconds / total);
          const [wide, high] = [leaf.x1 - leaf.x0, leaf.y1 - leaf.y0];
          const cell = cellText(time, share, wide, high);
          return (
            <g key={leaf.data.name} transform={`translate(${leaf.x0},${leaf.y0})`}>
              <rect width={wide} height={high} rx={3} fill={leaf.data.color} fill-opacity={0.28} stroke={leaf.data.color} />
              <title>{`${leaf.data.name}: ${duration(time.seconds)}, ${share}`}</title>
              <g transform={cell.isUpright ? `translate(${wide}) rotate(90)` : undefined}>
                {cell.lines.map((line, index) => (
                  <text key={index} class={index ? "quiet" : undefined} x={6} y={16 + 16 * index}>
                    {line}
                  </text>
                ))}
              </g>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

/** Group by the first part of the module path, so that a block keeps one colour. */
function tree(modules: readonly ModuleTime[]): Node {
  const groups = new Map<string, Node[]>();
  for (const each of modules) {
    const group = each.module.split(".").slice(0, 2).join(".") || "model";
    const name = cellName(each);
    const color = seriesColor([...groups.keys()].indexOf(group) < 0 ? groups.size : [...groups.keys()].indexOf(group));
    groups.set(group, [...(groups.get(group) ?? []), { name, time: each, color }]);
  }
  return { name: "step", children: [...groups].map(([name, children]) => ({ name, children })) };
}
