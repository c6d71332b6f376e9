/** Who changed what, and what was refused. */

import type { JSX } from "preact";
import type { Schemas } from "../api";
import { clock } from "../format";
import { useLive } from "../live";
import { Card, Empty, Trouble } from "./basics";
import { Table } from "./Table";

type Page = Schemas["AuditPage"];

export function Audit(): JSX.Element {
  const { value, problem } = useLive<Page>("/audit?limit=100", { topics: ["user", "session", "system", "job"] });
  return (
    <Card title="Latest changes">
      <Trouble problem={problem} />
      {value?.items.length === 0 && <Empty>Nothing has been changed yet.</Empty>}
      {value && value.items.length > 0 && (
        <div class="scroll" style={{ maxHeight: "26rem", overflowY: "auto" }} tabIndex={0} role="region" aria-label="List of the latest changes">
          <Table>
            <thead>
              <tr>
                <th>Time</th>
                <th>User</th>
                <th>By</th>
                <th>Action</th>
                <th>On</th>
                <th>Outcome</th>
              </tr>
            </thead>
            <tbody>
              {value.items.map((entry) => (
                <tr key={entry.id}>
                  <td class="numbers">{clock(entry.at)}</td>
                  <td>{entry.user || entry.uid}</td>
                  <td>{entry.door}</td>
                  <td class="unbroken">{entry.action}</td>
                  <td class="wide">
                    {entry.kind} {entry.name} <span class="quiet small">{entry.detail}</span>
                  </td>
                  <td class={entry.problem ? "tone-bad" : "tone-good"}>{entry.problem || "done"}</td>
                </tr>
              ))}
            </tbody>
          </Table>
        </div>
      )}
    </Card>
  );
}
