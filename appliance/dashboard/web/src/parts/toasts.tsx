/** What an action did, said once in a corner. */

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { Problem } from "../api";

interface Toast {
  id: number;
  tone: "good" | "bad";
  text: string;
  undo?: () => Promise<unknown>;
}

const toasts = signal<readonly Toast[]>([]);
let last = 0;

export function say(tone: Toast["tone"], text: string, undo?: () => Promise<unknown>): void {
  last += 1;
  const toast: Toast = undo ? { id: last, tone, text, undo } : { id: last, tone, text };
  toasts.value = [...toasts.value, toast];
  setTimeout(() => drop(toast.id), tone === "bad" ? 15_000 : 8_000);
}

const drop = (id: number): void => {
  toasts.value = toasts.value.filter((each) => each.id !== id);
};

/** Carry an action out and say how it went; with `undo`, offer the way back. */
export async function perform(
  action: () => Promise<unknown>,
  done: string,
  undo?: () => Promise<unknown>,
): Promise<boolean> {
  try {
    await action();
    say("good", done, undo);
    return true;
  } catch (error) {
    const hint = error instanceof Problem && error.hint ? ` ${error.hint}` : "";
    say("bad", `${error instanceof Error ? error.message : String(error)}${hint}`);
    return false;
  }
}

export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => (
        <div class={`toast ${toast.tone}`} key={toast.id}>
          {toast.text}{" "}
          {toast.undo && (
            <button
              class="plain"
              onClick={() => {
                drop(toast.id);
                void perform(toast.undo as () => Promise<unknown>, "Undone.");
              }}
            >
              Undo
            </button>
          )}
          <button class="plain" aria-label="Dismiss" onClick={() => drop(toast.id)}>
            x
          </button>
        </div>
      ))}
    </div>
  );
}
