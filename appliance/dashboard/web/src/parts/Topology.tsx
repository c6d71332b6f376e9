/** The appliance as a picture, with what flows on its edges now. */

import type { JSX } from "preact";
import { figure, rate } from "../format";
import { type Box, type Edge, type Flow, layOut, layOutTall } from "./layout";
import { screenSize } from "./screen";

export function Topology({ flow }: { flow: Flow }): JSX.Element {
  const isTall = screenSize.value === "phone";
  const { width, height, boxes, edges } = (isTall ? layOutTall : layOut)(flow, rate, (n) => `${figure(n)} samples/s`);
  const find = (id: string): Box => boxes.find((box) => box.id === id) as Box;
  return (
    <div class="scroll">
      <svg viewBox={`0 0 ${width} ${height}`} width="100%" style={{ minWidth: isTall ? undefined : "620px", maxWidth: isTall ? "340px" : "1000px", display: "block", margin: "0 auto" }} role="img" aria-label={summary(flow)}>
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
            <path d="M0 0 8 4 0 8z" fill="var(--quiet)" />
          </marker>
        </defs>
        {edges.map((edge) => (
          <Wire key={`${edge.from}>${edge.to}`} edge={edge} from={find(edge.from)} to={find(edge.to)} isTall={isTall} />
        ))}
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

/** An edge between two boxes. Between SwarmX and MemoryX two run side by side; that of SwarmX to systems goes both ways. */
function Wire({ edge, from, to, isTall }: { edge: Edge; from: Box; to: Box; isTall: boolean }): JSX.Element {
  const isPair = edge.from === "memoryx" || edge.to === "memoryx";
  const isBack = isTall ? from.y > to.y : from.x > to.x;
  const shift = isPair ? (isBack ? -9 : 9) : 0;
  const [x1, y1, x2, y2] = isTall
    ? [middle(from).x + shift, isBack ? from.y : from.y + from.height, middle(to).x + shift, isBack ? to.y + to.height : to.y]
    : [isBack ? from.x : from.x + from.width, middle(from).y + shift, isBack ? to.x + to.width : to.x, middle(to).y + shift];
  const place = isTall
    ? { x: x1 + (shift < 0 ? -10 : 10), y: (y1 + y2) / 2 + 4, "text-anchor": shift < 0 ? "end" : "start" } as const
    : { x: (x1 + x2) / 2, y: (y1 + y2) / 2 + (shift > 0 ? 30 : shift < 0 ? -24 : -31), "text-anchor": "middle" } as const;
  return (
    <g>
      <line x1={x1} y1={y1} x2={x2} y2={y2} stroke="var(--quiet)" stroke-width={1.4} marker-end="url(#arrow)" marker-start={edge.from === "swarmx" && !isPair ? "url(#arrow)" : undefined} />
      {edge.label && (
        <text class="quiet" {...place}>
          {edge.label}
        </text>
      )}
    </g>
  );
}

const middle = (box: Box): { x: number; y: number } => ({ x: box.x + box.width / 2, y: box.y + box.height / 2 });

function summary(flow: Flow): string {
  const weights = flow.weights === null ? "unknown" : rate(flow.weights);
  const gradients = flow.gradients === null ? "unknown" : rate(flow.gradients);
  return `User node, input workers, ${flow.systems.length} systems, SwarmX and MemoryX. Weights ${weights}, gradients ${gradients}.`;
}
