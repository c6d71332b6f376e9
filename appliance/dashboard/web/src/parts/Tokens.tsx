/** Tokens: mint one, see it once, revoke. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, type Schemas } from "../api";
import { clock } from "../format";
import { useLive } from "../live";
import { isAdmin, me } from "./account";
import { Card, Empty, Trouble } from "./basics";
import { Dialog } from "./Dialog";
import { perform } from "./toasts";
import { Table } from "./Table";

type TokenList = Schemas["TokenList"];
type Minted = Schemas["MintedToken"];

export function Tokens(): JSX.Element {
  const { value, problem, reload } = useLive<TokenList>("/tokens", { topics: ["user"] });
  const [isMinting, setMinting] = useState(false);
  const [minted, setMinted] = useState<Minted>();
  const mint = (form: FormData): void => {
    const body = { user: form.get("user"), label: form.get("label"), days: Number(form.get("days")) };
    void perform(async () => setMinted((await ask<Minted>("/tokens", { method: "POST", body })).value), "Token minted.").then(reload);
  };
  const revoke = (id: string): void => void perform(() => ask(`/tokens/${id}`, { method: "DELETE" }), `Token ${id} is revoked.`).then(reload);
  const shown = value?.items.filter((each) => each.revoked_at === null) ?? [];
  return (
    <Card title="Tokens" actions={<button onClick={() => setMinting(true)}>Mint a token</button>}>
      <Trouble problem={problem} />
      {minted && (
        <p class="card stale">
          Copy it now, it is shown this once: <code style={{ overflowWrap: "anywhere" }}>{minted.token}</code>{" "}
          <button onClick={() => void navigator.clipboard.writeText(minted.token)}>Copy</button>
        </p>
      )}
      {shown.length === 0 && <Empty>No token is valid.</Empty>}
      {shown.length > 0 && (
        <Table>
          <thead>
            <tr>
              <th>Id</th>
              <th>User</th>
              <th>Label</th>
              <th>Made</th>
              <th>Ends</th>
              <th class="unseen">Actions</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((token) => (
              <tr key={token.id}>
                <td class="mono">{token.id}</td>
                <td>{token.user}</td>
                <td>{token.is_login ? "login of a browser" : token.label}</td>
                <td class="numbers">{clock(token.created_at)}</td>
                <td class="numbers">{token.expires_at ? clock(token.expires_at) : "never"}</td>
                <td>
                  <button class="danger" onClick={() => revoke(token.id)}>
                    Revoke
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </Table>
      )}
      {isMinting && (
        <Dialog title="A new token" confirm="Mint" dismiss="Do not mint" onClose={() => setMinting(false)} onConfirm={mint}>
          <div class="form">
            <label class="field">
              User
              <input name="user" defaultValue={me.value?.name ?? ""} readOnly={!isAdmin()} required />
            </label>
            <label class="field">
              Label
              <input name="label" maxLength={200} />
            </label>
            <label class="field">
              Days
              <input name="days" type="number" min="1" max="3650" defaultValue="30" required />
            </label>
          </div>
        </Dialog>
      )}
    </Card>
  );
}
