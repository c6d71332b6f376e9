/** Which SwarmX pod of a job sends to which, and to which systems. */

import type { JSX } from "preact";
import type { Schemas } from "../api";
import { useLive } from "../live";
import { Card } from "./basics";
import { layOutTree, swarmxPods, type TreeBox } from "./swarmx";

type JobTopology = Schemas["JobTopology"];

/** Shown where a job has more than one SwarmX pod; one serves all of its systems. */
export function SwarmxTree({ id }: { id: string }): JSX.Element | null {
  const { value } = useLive<JobTopology>(`/jobs/${id}/topology`, { topics: ["job"], id, everySeconds: 30 });
  const pods = swarmxPods(value?.items ?? []);
  if (!value || pods.length < 2 || pods.every((each) => each.systems.length === 0)) return null;
  const { width, height, boxes, edges } = layOutTree(value.items);
  const find = (name: string): TreeBox => boxes.find((box) => box.id === name) as TreeBox;
  return (
    <Card title="SwarmX">
      <div class="scroll">
        <svg viewBox={`0 0 ${width} ${height}`} width="100%" style={{ minWidth: "620px", maxWidth: "1000px", display: "block", margin: "0 auto" }} role="img" aria-label={`A tree of ${pods.length} SwarmX pods between MemoryX and the systems`}>
          {edges.map((edge) => {
            const [from, to] = [find(edge.from), find(edge.to)];
            return <line key={`${edge.from}>${edge.to}`} x1={from.x + from.width} y1={from.y + from.height / 2} x2={to.x} y2={to.y + to.height / 2} stroke="var(--quiet)" stroke-width={1.4} />;
          })}
          {boxes.map((box) => (
            <g key={box.id}>
              <rect x={box.x} y={box.y} width={box.width} height={box.height} rx={8} fill="var(--mark)" stroke="var(--line)" stroke-width={1.6} />
              <text x={box.x + box.width / 2} y={box.y + box.height / 2 + (box.node ? -3 : 4)} text-anchor="middle">
                {box.label}
              </text>
              {box.node && (
                <text class="quiet" x={box.x + box.width / 2} y={box.y + box.height / 2 + 14} text-anchor="middle">
                  {box.node}
                </text>
              )}
            </g>
          ))}
        </svg>
      </div>
      <p class="quiet small">Weights go from left to right; gradients come back and are added up on the way.</p>
    </Card>
  );
}
