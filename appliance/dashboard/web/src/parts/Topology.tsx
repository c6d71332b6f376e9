/** The appliance as a picture, with what flows on its edges now. */

import type { JSX } from "preact";
import { figure, rate } from "../format";
import { type Box, type Flow, layOut } from "./layout";

export function Topology({ flow }: { flow: Flow }): JSX.Element {
  const { width, height, boxes, edges } = layOut(flow, rate, (n) => `${figure(n)} samples/s`);
  const find = (id: string): Box => boxes.find((box) => box.id === id) as Box;
  return (
    <div class="scroll">
      <svg viewBox={`0 0 ${width} ${height}`} width="100%" style={{ minWidth: "620px", maxWidth: "1000px", display: "block", margin: "0 auto" }} role="img" aria-label={summary(flow)}>
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
            <path d="M0 0 8 4 0 8z" fill="var(--quiet)" />
          </marker>
        </defs>
        {edges.map((edge) => {
          const [from, to] = [find(edge.from), find(edge.to)];
          const isLeftwards = from.x > to.x;
          const isPair = edge.from === "memoryx" || edge.to === "memoryx";
          const shift = isPair ? (isLeftwards ? -9 : 9) : 0;
          const x1 = isLeftwards ? from.x : from.x + from.width;
          const x2 = isLeftwards ? to.x + to.width : to.x;
          const y1 = from.y + from.height / 2 + shift;
          const y2 = to.y + to.height / 2 + shift;
          return (
            <g key={`${edge.from}>${edge.to}`}>
              <line x1={x1} y1={y1} x2={x2} y2={y2} stroke="var(--quiet)" stroke-width={1.4} marker-end="url(#arrow)" marker-start={edge.from === "swarmx" && !isPair ? "url(#arrow)" : undefined} />
              {edge.label && (
                <text class="quiet" x={(x1 + x2) / 2} y={(y1 + y2) / 2 + (shift > 0 ? 30 : shift < 0 ? -24 : -31)} text-anchor="middle">
                  {edge.label}
                </text>
              )}
            </g>
          );
        })}
        {boxes.map((box) => (
          <g key={box.id}>
            <rect x={box.x} y={box.y} width={box.width} height={box.height} rx={8} fill="var(--mark)" stroke={box.id.startsWith("system-") ? "var(--accent-fill)" : "var(--line)"} stroke-width={1.6} />
            <text x={box.x + box.width / 2} y={box.y + box.height / 2 + 4} text-anchor="middle">
              {box.label}
            </text>
          </g>
        ))}
      </svg>
    </div>
  );
}

function summary(flow: Flow): string {
  const weights = flow.weights === null ? "unknown" : rate(flow.weights);
  const gradients = flow.gradients === null ? "unknown" : rate(flow.gradients);
  return `User node, input workers, ${flow.systems.length} systems, SwarmX and MemoryX. Weights ${weights}, gradients ${gradients}.`;
}
