/** Who looks at the page, and what they may do. */

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { ask, get, needsLogin, Problem, type Schemas, setCsrfToken } from "../api";
import { perform } from "./toasts";

type Me = Schemas["Me"];

export const me = signal<Me | null>(null);

export async function loadAccount(): Promise<void> {
  try {
    take(await get<Me>("/me"));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status !== 401) needsLogin.value = false;
  }
}

export async function logIn(token: string): Promise<void> {
  take((await ask<Me>("/login", { method: "POST", body: { token } })).value);
}

/** What the identity provider is called at which one can log in; empty without one. */
export async function loadProvider(): Promise<string> {
  return (await get<Schemas["LoginWays"]>("/login")).provider;
}

/** Where a browser goes to log in there, and comes back to this page from. */
export const providerLogin = (page: string): string => `/api/v1/login/oidc?${new URLSearchParams({ page })}`;

function take(account: Me): void {
  me.value = account;
  setCsrfToken(account.csrf_token);
  needsLogin.value = false;
}

async function logOut(): Promise<void> {
  if (await perform(() => ask("/logout", { method: "POST" }), "Logged out.")) {
    me.value = null;
    needsLogin.value = true;
  }
}

export const isAdmin = (): boolean => me.value?.role === "cluster-admin";

/** Whether this person may change a job; the server asks the same question again. */
export function mayEdit(job: { uid: number; session: string }): boolean {
  const account = me.value;
  if (!account || account.is_blocked) return false;
  if (account.role === "cluster-admin" || account.uid === job.uid) return true;
  return account.role === "session-admin" && account.sessions.includes(job.session);
}

export function Who(): JSX.Element | null {
  const account = me.value;
  if (!account) return null;
  return (
    <>
      <span title={`uid ${account.uid}, ${account.role}`}>{account.name || "local user"}</span>
      {account.needs_token && (
        <button class="plain" onClick={() => void logOut()}>
          Log out
        </button>
      )}
    </>
  );
}
