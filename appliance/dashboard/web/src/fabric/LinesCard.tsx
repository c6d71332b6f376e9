/** The source lines that take most cycles, on all PEs or on the chosen one. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Card, Empty, Share } from "../parts/basics";
import { cyclesOf, profileOf } from "./profile";
import type { Trace } from "./trace";

const SHOWN = 12;

export function LinesCard({ trace, selected }: { trace: Trace; selected: number }): JSX.Element {
  const [ofOne, setOfOne] = useState(false);
  const [all, setAll] = useState(false);
  const pe = ofOne ? selected : -1;
  const costs = useMemo(() => profileOf(trace, pe), [trace, pe]);
  const total = costs.reduce((sum, cost) => sum + cyclesOf(cost), 0);
  const place = `PE (${selected % trace.width}, ${Math.floor(selected / trace.width)})`;
  return (
    <Card
      title="Cycles by source line"
      actions={
        selected >= 0 && (
          <label class="check">
            <input type="checkbox" checked={ofOne} onChange={(event) => setOfOne(event.currentTarget.checked)} /> {place} alone
          </label>
        )
      }
    >
      {costs.length === 0 && <Empty>No task ran.</Empty>}
      {costs.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Line</th>
                <th class="num">Cycles</th>
                <th>Share</th>
                <th class="num">Scalar code</th>
                <th class="num">Operations on memory</th>
                <th class="num">Operations that may wait</th>
                <th class="num">Runs</th>
              </tr>
            </thead>
            <tbody>
              {(all ? costs : costs.slice(0, SHOWN)).map((cost) => (
                <tr key={cost.place}>
                  <td>
                    <span class="quiet small">{cost.place || "unknown"}</span> <code>{cost.text}</code>
                  </td>
                  <td class="num">{cyclesOf(cost).toLocaleString()}</td>
                  <td>
                    <Share share={total ? cyclesOf(cost) / total : 0} label={`${cost.place}: ${cyclesOf(cost)} of ${total} cycles`} />
                  </td>
                  <td class="num">{cost.scalar.toLocaleString()}</td>
                  <td class="num">{cost.memory.toLocaleString()}</td>
                  <td class="num">{cost.fabric.toLocaleString()}</td>
                  <td class="num">{cost.runs.toLocaleString()}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {costs.length > SHOWN && <button onClick={() => setAll(!all)}>{all ? "The hottest" : `All ${costs.length}`}</button>}
    </Card>
  );
}
