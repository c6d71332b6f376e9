/** Accounts: make, block, give a role. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, type Schemas } from "../api";
import { useLive } from "../live";
import { Card, Empty, Trouble } from "./basics";
import { Dialog } from "./Dialog";
import { perform } from "./toasts";
import { Table } from "./Table";

type UserList = Schemas["UserList"];
type User = Schemas["UserView"];

const ROLES = ["user", "session-admin", "cluster-admin"] as const;

const change = (name: string, body: object): Promise<unknown> =>
  ask(`/users/${encodeURIComponent(name)}`, { method: "PATCH", body });

export function Users(): JSX.Element {
  const { value, problem, reload } = useLive<UserList>("/users", { topics: ["user"] });
  const [isAdding, setAdding] = useState(false);
  const add = (form: FormData): void => {
    const body = { name: form.get("name"), uid: Number(form.get("uid")), gid: Number(form.get("gid")), role: form.get("role") };
    void perform(() => ask("/users", { method: "POST", body }), `User ${String(form.get("name"))} is there.`).then(reload);
  };
  return (
    <Card title="Users" actions={<button onClick={() => setAdding(true)}>Add a user</button>}>
      <Trouble problem={problem} />
      {value?.items.length === 0 && <Empty>No account has been made. Without tokens, callers are known by their user on this machine.</Empty>}
      {value && value.items.length > 0 && (
        <Table>
          <thead>
            <tr>
              <th>Name</th>
              <th class="num">uid</th>
              <th>Role</th>
              <th>Sessions</th>
              <th>State</th>
              <th class="unseen">Actions</th>
            </tr>
          </thead>
          <tbody>
            {value.items.map((user) => (
              <Row key={user.name} user={user} onDone={reload} />
            ))}
          </tbody>
        </Table>
      )}
      {isAdding && (
        <Dialog title="A new user" confirm="Add" dismiss="Do not add" onClose={() => setAdding(false)} onConfirm={add}>
          <div class="form">
            <label class="field">
              Name
              <input name="name" required maxLength={63} />
            </label>
            <label class="field">
              uid
              <input name="uid" type="number" min="0" required />
            </label>
            <label class="field">
              gid
              <input name="gid" type="number" min="0" required />
            </label>
            <label class="field">
              Role
              <select name="role">
                {ROLES.map((role) => (
                  <option key={role}>{role}</option>
                ))}
              </select>
            </label>
          </div>
        </Dialog>
      )}
    </Card>
  );
}

function Row({ user, onDone }: { user: User; onDone: () => void }): JSX.Element {
  const isBlocked = user.blocked_at !== null;
  const setRole = (role: string): void =>
    void perform(
      () => change(user.name, { role }),
      `${user.name} is ${role}.`,
      () => change(user.name, { role: user.role }),
    ).then(onDone);
  const block = (wanted: boolean): void =>
    void perform(
      () => change(user.name, { is_blocked: wanted }),
      `${user.name} is ${wanted ? "blocked" : "let in again"}.`,
      () => change(user.name, { is_blocked: !wanted }),
    ).then(onDone);
  return (
    <tr>
      <td>{user.name}</td>
      <td class="num">{user.uid}</td>
      <td>
        <select aria-label={`Role of ${user.name}`} value={user.role} onChange={(event) => setRole(event.currentTarget.value)}>
          {ROLES.map((role) => (
            <option key={role}>{role}</option>
          ))}
        </select>
      </td>
      <td>{user.sessions.join(", ")}</td>
      <td class={isBlocked ? "tone-bad" : "tone-good"}>{isBlocked ? "blocked" : "active"}</td>
      <td>
        <button onClick={() => block(!isBlocked)}>{isBlocked ? "Unblock" : "Block"}</button>
      </td>
    </tr>
  );
}
