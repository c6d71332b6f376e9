/** Sessions: what each may use; create, change, pause, delete. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, type Schemas } from "../api";
import { useLive } from "../live";
import { isAdmin, me } from "./account";
import { Card, Trouble } from "./basics";
import { Dialog } from "./Dialog";
import { perform } from "./toasts";
import { Table } from "./Table";

type SessionList = Schemas["SessionList"];
type Session = Schemas["Session"];

const path = (name: string): string => `/sessions/${encodeURIComponent(name)}`;
const mayPause = (name: string): boolean => isAdmin() || (me.value?.role === "session-admin" && me.value.sessions.includes(name));

export function Sessions(): JSX.Element {
  const { value, problem, reload } = useLive<SessionList>("/sessions", { topics: ["session", "job"] });
  const [isAdding, setAdding] = useState(false);
  return (
    <Card title="Sessions" actions={isAdmin() && <button onClick={() => setAdding(true)}>Create a session</button>}>
      <Trouble problem={problem} />
      <Table>
        <thead>
          <tr>
            <th>Name</th>
            <th class="num">Own systems</th>
            <th class="num">May borrow</th>
            <th class="num">Shares</th>
            <th class="num">Running</th>
            <th class="num">Waiting</th>
            <th>State</th>
            <th class="unseen">Actions</th>
          </tr>
        </thead>
        <tbody>
          {value?.items.map((session) => (
            <Row key={session.name} session={session} onDone={reload} />
          ))}
        </tbody>
      </Table>
      {isAdding && (
        <Dialog
          title="A new session"
          confirm="Create"
          dismiss="Do not create"
          onClose={() => setAdding(false)}
          onConfirm={(form) =>
            void perform(
              () => ask("/sessions", { method: "POST", body: { name: form.get("name"), ...limits(form) } }),
              `Session ${String(form.get("name"))} is there.`,
              () => ask(path(String(form.get("name"))), { method: "DELETE" }),
            ).then(reload)
          }
        >
          <div class="form">
            <label class="field">
              Name
              <input name="name" pattern="[a-z0-9]([\-a-z0-9]{0,61}[a-z0-9])?" required />
            </label>
            <Limits />
          </div>
        </Dialog>
      )}
    </Card>
  );
}

/** Empty fields set no limit. */
function limits(form: FormData): object {
  const number = (name: string): number | null => (form.get(name) ? Number(form.get(name)) : null);
  return { num_systems: number("num_systems"), borrow_limit: number("borrow_limit"), shares: Number(form.get("shares") || 1) };
}

function Limits({ session }: { session?: Session }): JSX.Element {
  const initial = (value: number | null | undefined): string => (value === null || value === undefined ? "" : String(value));
  return (
    <>
      <label class="field">
        Systems of its own
        <input name="num_systems" type="number" min="0" placeholder="no quota" defaultValue={initial(session?.spec.num_systems)} />
      </label>
      <label class="field">
        May borrow
        <input name="borrow_limit" type="number" min="0" placeholder="no limit" defaultValue={initial(session?.spec.borrow_limit)} />
      </label>
      <label class="field">
        Shares
        <input name="shares" type="number" min="0.01" step="any" defaultValue={initial(session?.spec.shares ?? 1)} required />
      </label>
    </>
  );
}

function Row({ session, onDone }: { session: Session; onDone: () => void }): JSX.Element {
  const [open, setOpen] = useState<"edit" | "delete">();
  const { name, spec } = session;
  const change = (body: object, etag?: string): Promise<unknown> => ask(path(name), { method: "PATCH", body, ...(etag ? { etag } : {}) });
  const pause = (isPaused: boolean): void =>
    void perform(
      () => change({ is_paused: isPaused }),
      `Session ${name} is ${isPaused ? "paused" : "running"}.`,
      () => change({ is_paused: !isPaused }),
    ).then(onDone);
  const before = { num_systems: spec.num_systems, borrow_limit: spec.borrow_limit, shares: spec.shares };
  return (
    <tr>
      <td>
        <span class="unbroken">{name}</span>
        {spec.properties?.["namespace"] && <div class="quiet small">in namespace {spec.properties["namespace"]}</div>}
      </td>
      <td class="num">{spec.num_systems ?? "no quota"}</td>
      <td class="num">{spec.borrow_limit ?? "no limit"}</td>
      <td class="num">{spec.shares}</td>
      <td class="num">{session.num_running}</td>
      <td class="num">{session.num_queued}</td>
      <td class={spec.is_paused ? "tone-warn" : "tone-good"}>{spec.is_paused ? "paused" : "open"}</td>
      <td>
        <span class="controls">
          {mayPause(name) && <button onClick={() => pause(!spec.is_paused)}>{spec.is_paused ? "Resume" : "Pause"}</button>}
          {isAdmin() && <button onClick={() => setOpen("edit")}>Change</button>}
          {isAdmin() && name !== "job-operator" && (
            <button class="danger" onClick={() => setOpen("delete")}>
              Delete
            </button>
          )}
        </span>
        {open === "edit" && (
          <Dialog
            title={`Session ${name}`}
            confirm="Change"
            dismiss="Leave unchanged"
            onClose={() => setOpen(undefined)}
            onConfirm={(form) =>
              void perform(
                () => change(limits(form), `"${session.version}"`),
                `Session ${name} changed.`,
                () => change(before),
              ).then(onDone)
            }
          >
            <div class="form">
              <Limits session={session} />
            </div>
          </Dialog>
        )}
        {open === "delete" && (
          <Dialog
            title={`Delete session ${name}?`}
            confirm="Delete"
            dismiss="Keep the session"
            tone="danger"
            onClose={() => setOpen(undefined)}
            onConfirm={() => void perform(() => ask(path(name), { method: "DELETE" }), `Session ${name} is gone.`).then(onDone)}
          >
            <p>Its finished jobs stay in the history.</p>
          </Dialog>
        )}
      </td>
    </tr>
  );
}
