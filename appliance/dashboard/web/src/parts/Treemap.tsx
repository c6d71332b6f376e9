/** Shares of a whole as nested areas; modules of a model by their simulated time. */

import { hierarchy, treemap, treemapSquarify } from "d3-hierarchy";
import type { JSX } from "preact";
import { duration, percent } from "../format";
import { seriesColor } from "./basics";
import type { ModuleTime } from "./modules";

interface Node {
  name: string;
  value?: number;
  color?: string;
  children?: Node[];
}

const WIDTH = 900;
const HEIGHT = 320;

export function Treemap({ modules }: { modules: readonly ModuleTime[] }): JSX.Element {
  const total = modules.reduce((sum, each) => sum + each.seconds, 0);
  const root = hierarchy<Node>(tree(modules))
    .sum((node) => node.value ?? 0)
    .sort((a, b) => (b.value ?? 0) - (a.value ?? 0));
  const laid = treemap<Node>().tile(treemapSquarify).size([WIDTH, HEIGHT]).paddingInner(2).round(true)(root);
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width="100%" role="img" aria-label="Simulated time of a step by module">
      {laid.leaves().map((leaf) => {
        const seconds = leaf.value ?? 0;
        const [width, height] = [leaf.x1 - leaf.x0, leaf.y1 - leaf.y0];
        return (
          <g key={leaf.data.name} transform={`translate(${leaf.x0},${leaf.y0})`}>
            <rect width={width} height={height} rx={3} fill={leaf.data.color} fill-opacity={0.28} stroke={leaf.data.color} />
            <title>{`${leaf.data.name}: ${duration(seconds)}, ${percent(seconds / total)}`}</title>
            {width > 74 && height > 34 && (
              <>
                <text x={6} y={16}>
                  {shortened(leaf.data.name, width)}
                </text>
                <text class="quiet" x={6} y={31}>
                  {percent(seconds / total)}
                </text>
              </>
            )}
          </g>
        );
      })}
    </svg>
  );
}

/** Group by the first part of the module path, so that a block keeps one colour. */
function tree(modules: readonly ModuleTime[]): Node {
  const groups = new Map<string, Node[]>();
  for (const each of modules) {
    const group = each.module.split(".").slice(0, 2).join(".") || "model";
    const name = each.direction ? `${each.module} ${each.direction}` : each.module;
    const color = seriesColor([...groups.keys()].indexOf(group) < 0 ? groups.size : [...groups.keys()].indexOf(group));
    groups.set(group, [...(groups.get(group) ?? []), { name, value: each.seconds, color }]);
  }
  return { name: "step", children: [...groups].map(([name, children]) => ({ name, children })) };
}

const shortened = (name: string, width: number): string => {
  const room = Math.floor(width / 7) - 1;
  return name.length <= room ? name : `...${name.slice(-(room - 3))}`;
};
