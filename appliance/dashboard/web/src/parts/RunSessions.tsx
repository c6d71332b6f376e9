/** The sessions that a job has run: trainings and evaluations, each with its own readings. */

import type { JSX } from "preact";
import { Link } from "wouter-preact";
import type { Schemas } from "../api";
import { duration, figure, percent, size } from "../format";
import { Card, Facts } from "./basics";
import { progressText } from "./progress";
import { sessionKind } from "./SessionChoice";
import { Table } from "./Table";

type Session = Schemas["RunSession"];
type Masked = Schemas["MaskedWeights"];

/** Those of a job, if there are several, and what its last one's masks save. */
export function RunSessions({ id, sessions }: { id: string; sessions: readonly Session[] }): JSX.Element {
  const isWhole = sessions.length > 1;
  const last = sessions.findLast((each) => each.masked_weights);
  return (
    <>
      {isWhole && <List id={id} sessions={sessions} />}
      {last?.masked_weights && (
        <MaskedWeights of={last.masked_weights} title={isWhole ? `Masked weights, session ${last.session} (${sessionKind(last)})` : "Masked weights"} />
      )}
    </>
  );
}

const List = ({ id, sessions }: { id: string; sessions: readonly Session[] }): JSX.Element => (
  <Card title="Sessions">
    <Table>
      <thead>
        <tr>
          <th class="num">Session</th>
          <th>Kind</th>
          <th>Progress</th>
          <th class="num">Step here</th>
          <th class="num">Simulated step</th>
          <th class="num">Simulated samples/s</th>
          <th>Wafer</th>
        </tr>
      </thead>
      <tbody>
        {sessions.map((each) => (
          <tr key={each.session}>
            <td class="num">{each.session}</td>
            <td>{sessionKind(each)}</td>
            <td>{progressText(each)}</td>
            <td class="num">{each.step_seconds ? duration(each.step_seconds) : "-"}</td>
            <td class="num">{reading(each, "simulated_step_seconds", duration)}</td>
            <td class="num">{reading(each, "simulated_samples_per_second", figure)}</td>
            <td>
              <Link href={`/jobs/${id}/wafer?session=${each.session}`}>wafer</Link>
            </td>
          </tr>
        ))}
      </tbody>
    </Table>
  </Card>
);

const reading = (session: Session, name: string, write: (value: number) => string): string => {
  const value = session.readings[name];
  return value === undefined ? "-" : write(value);
};

/** What masks let through, and what that saves; counted when the session's steps began. */
function MaskedWeights({ of, title }: { of: Masked; title: string }): JSX.Element {
  const { broadcast_bytes_per_step: sent, dense_broadcast_bytes_per_step: whole, saved_broadcast_bytes_per_step: saved } = of;
  const { simulated_step_seconds: step, simulated_dense_step_seconds: dense, simulated_sparse_speedup: speedup } = of;
  const reasons = Object.entries(of.dense_because);
  return (
    <Card title={title}>
      <Facts
        of={[
          ["Streamed by their non-zeros", `${of.num_sparse.toLocaleString("en-US")} of ${of.num_masked.toLocaleString("en-US")}`],
          ["Density", `${percent(of.density)} of ${figure(of.num_elements)} elements`],
          ...(sent !== null && whole !== null && saved !== null
            ? ([
                ["Broadcast each step", `${size(sent)} instead of ${size(whole)}`],
                ["Saved each step", `${size(saved)} (${percent(saved / whole)})`],
              ] as const)
            : []),
          ...(step !== null && dense !== null && speedup !== null
            ? ([
                ["Simulated step", `${duration(step)} instead of ${duration(dense)}`],
                ["Simulated speed-up", `${figure(speedup)} x`],
              ] as const)
            : []),
        ]}
      />
      {reasons.length > 0 && (
        <>
          <p class="small quiet">Held whole:</p>
          <ul class="small">
            {reasons.map(([reason, number]) => (
              <li key={reason}>
                {number.toLocaleString("en-US")} {number === 1 ? "weight" : "weights"}: {reason}
              </li>
            ))}
          </ul>
        </>
      )}
    </Card>
  );
}
