/** Systems: drain, maintain, bring back; and what maintenance is planned. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, type Schemas } from "../api";
import { clock, duration } from "../format";
import { useLive } from "../live";
import { isAdmin } from "./account";
import { Card, None, Trouble } from "./basics";
import { JobName } from "./JobName";
import { Dialog } from "./Dialog";
import { perform } from "./toasts";
import { Table } from "./Table";

type ClusterView = Schemas["ClusterView"];
type SystemView = Schemas["SystemView"];
type MaintenanceList = Schemas["MaintenanceList"];

const STATES = ["up", "drain", "maintenance"] as const;

export function Systems(): JSX.Element {
  const cluster = useLive<ClusterView>("/cluster", { topics: ["system", "job"] });
  const planned = useLive<MaintenanceList>("/maintenance", { topics: ["system"] });
  const [isPlanning, setPlanning] = useState(false);
  const systems = cluster.value?.systems ?? [];
  const plan = (form: FormData): void => {
    const starts = String(form.get("starts"));
    const body = {
      systems: form.getAll("system"),
      starts_at: starts ? new Date(starts).toISOString() : null,
      seconds: Number(form.get("minutes")) * 60,
      notes: form.get("notes"),
    };
    void perform(() => ask("/maintenance", { method: "POST", body }), "Maintenance is planned.").then(planned.reload);
  };
  const end = (id: string): void => void perform(() => ask(`/maintenance/${id}`, { method: "DELETE" }), "Maintenance is taken back.").then(planned.reload);
  return (
    <Card title="Systems" actions={isAdmin() && <button onClick={() => setPlanning(true)}>Plan maintenance</button>}>
      <Trouble problem={cluster.problem} />
      <Table>
        <thead>
          <tr>
            <th>Name</th>
            <th>State</th>
            <th>Job</th>
            <th>Notes</th>
          </tr>
        </thead>
        <tbody>
          {systems.map((system) => (
            <Row key={system.name} system={system} onDone={cluster.reload} />
          ))}
        </tbody>
      </Table>
      <h3>Planned maintenance</h3>
      {(planned.value?.items.length ?? 0) === 0 && <None of={planned}>None.</None>}
      {planned.value?.items.map((each) => (
        <p key={`${each.id}${each.system}`} class="small">
          {each.system}: {clock(each.starts_at)} to {clock(each.ends_at)} ({duration((Date.parse(each.ends_at) - Date.parse(each.starts_at)) / 1000)}) {each.notes}{" "}
          {isAdmin() && <button onClick={() => end(each.id)}>Take back</button>}
        </p>
      ))}
      {isPlanning && (
        <Dialog title="Plan maintenance" confirm="Plan" dismiss="Do not plan" onClose={() => setPlanning(false)} onConfirm={plan}>
          <div>
            {systems.map((system) => (
              <label key={system.name} class="tag">
                <input type="checkbox" name="system" value={system.name} /> {system.name}
              </label>
            ))}
          </div>
          <div class="form">
            <label class="field">
              From (empty: now)
              <input name="starts" type="datetime-local" />
            </label>
            <label class="field">
              Minutes
              <input name="minutes" type="number" min="1" defaultValue="60" required />
            </label>
            <label class="field">
              Notes
              <input name="notes" maxLength={1000} />
            </label>
          </div>
        </Dialog>
      )}
    </Card>
  );
}

function Row({ system, onDone }: { system: SystemView; onDone: () => void }): JSX.Element {
  const set = (state: string): void =>
    void perform(
      () => ask(`/systems/${system.name}`, { method: "PATCH", body: { state } }),
      `${system.name} is ${state}.`,
      () => ask(`/systems/${system.name}`, { method: "PATCH", body: { state: system.state } }),
    ).then(onDone);
  return (
    <tr>
      <td>{system.name}</td>
      <td>
        {isAdmin() ? (
          <select aria-label={`State of ${system.name}`} value={system.state} onChange={(event) => set(event.currentTarget.value)}>
            {STATES.map((state) => (
              <option key={state}>{state}</option>
            ))}
          </select>
        ) : (
          system.state
        )}
      </td>
      <td>{system.job ? <JobName id={system.job} /> : <span class="quiet">none</span>}</td>
      <td class="quiet">{system.notes}</td>
    </tr>
  );
}
