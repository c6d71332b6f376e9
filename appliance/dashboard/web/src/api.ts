/** The REST API: the only thing that the pages talk to. */

import { signal } from "@preact/signals";
import type { components } from "./schema";

export type Schemas = components["schemas"];

/** A refusal, in the words of the appliance (RFC 9457). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    detail: string,
    readonly hint: string,
  ) {
    super(detail);
  }
}

/** Whether the appliance asks who we are; the shell then shows the login page. */
export const needsLogin = signal(false);

interface Options {
  method?: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  body?: unknown;
  etag?: string;
  signal?: AbortSignal;
}

/** Ask the API and return the parsed answer with its ETag. */
export async function ask<T>(path: string, options: Options = {}): Promise<{ value: T; etag: string }> {
  const { method = "GET", body, etag, signal: abort } = options;
  const headers: Record<string, string> = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (etag) headers["If-Match"] = etag;
  if (method !== "GET") headers["X-CSRF-Token"] = csrf;
  const init: RequestInit = { method, headers, credentials: "same-origin" };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (abort) init.signal = abort;
  const answer = await fetch(`/api/v1${path}`, init);
  if (answer.status === 401) needsLogin.value = true;
  if (!answer.ok) throw await problemOf(answer);
  const value = answer.status === 204 ? (undefined as T) : ((await answer.json()) as T);
  return { value, etag: answer.headers.get("ETag") ?? "" };
}

export const get = async <T>(path: string, abort?: AbortSignal): Promise<T> =>
  (await ask<T>(path, abort ? { signal: abort } : {})).value;

/** The bytes of an answer. */
export async function getBytes(path: string, abort?: AbortSignal): Promise<Uint8Array> {
  const answer = await fetch(`/api/v1${path}`, { credentials: "same-origin", ...(abort ? { signal: abort } : {}) });
  if (answer.status === 401) needsLogin.value = true;
  if (!answer.ok) throw await problemOf(answer);
  return new Uint8Array(await answer.arrayBuffer());
}

async function problemOf(answer: Response): Promise<Problem> {
  const text = await answer.text();
  try {
    const body = JSON.parse(text) as { detail?: string; title?: string; hint?: string };
    return new Problem(answer.status, body.detail ?? body.title ?? text, body.hint ?? "");
  } catch {
    return new Problem(answer.status, text || answer.statusText, "");
  }
}

/** Proof that a change comes from our own page; `GET /me` tells it. */
let csrf = "";

export function setCsrfToken(token: string): void {
  csrf = token;
}
