/** Live data: one event stream for the whole page tells what changed; views then ask again. */

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, needsLogin, Problem } from "./api";

export type Connection = "connecting" | "live" | "lost";

/** Whether changes arrive as they happen. */
export const connection = signal<Connection>("connecting");

/** Wall clock of the page in milliseconds; one timer moves every "3 s ago" on it. */
export const now = signal(Date.now());

interface Change {
  topic: string;
  id: string;
}

const listeners = new Set<(change: Change) => void>();
let source: EventSource | null = null;

const TOPICS = ["job", "progress", "queue", "session", "system", "user"] as const;

/** Open the stream. The browser opens it again when it breaks, and says what it has seen; where the
 * appliance cannot go on from there it sends `reset`, and everything is asked again. */
export function connect(): void {
  source?.close();
  const opened = new EventSource("/api/v1/stream");
  source = opened;
  opened.onopen = () => {
    connection.value = "live";
  };
  opened.onerror = () => {
    connection.value = "lost";
    // Closed for good: the answer was a refusal, as while the appliance restarts behind a proxy.
    if (opened.readyState === EventSource.CLOSED && !needsLogin.value) setTimeout(reopen, 2000);
  };
  opened.addEventListener("reset", () => tell({ topic: "all", id: "" }));
  for (const topic of TOPICS) {
    opened.addEventListener(topic, (event) => {
      const { id, name } = JSON.parse((event as MessageEvent<string>).data) as { id?: string; name?: string };
      tell({ topic, id: id ?? name ?? "" });
    });
  }
}

function reopen(): void {
  connect();
  tell({ topic: "all", id: "" });
}

function tell(change: Change): void {
  for (const listener of listeners) listener(change);
}

export interface Live<T> {
  value: T | undefined;
  problem: Problem | undefined;
  reload: () => void;
}

interface Wanted {
  /** Topics that make the value old. */
  topics: readonly string[];
  /** Only changes of this object count; without it all do. */
  id?: string;
  /** Seconds after which the value is old even when nothing was said, for readings. */
  everySeconds?: number;
}

const SETTLE_MS = 200;

/** Hold the answer to `path` fresh; bursts of changes cost one question. */
export function useLive<T>(path: string | null, wanted: Wanted): Live<T> {
  const [value, setValue] = useState<T>();
  const [problem, setProblem] = useState<Problem>();
  const reload = useRef<() => void>(() => {});
  const { id, everySeconds } = wanted;
  const topics = wanted.topics.join(" ");

  useEffect(() => {
    if (path === null) return;
    const abort = new AbortController();
    let isAsking = false;
    let isOld = false;
    let timer: ReturnType<typeof setTimeout> | undefined;

    const load = async (): Promise<void> => {
      timer = undefined;
      isAsking = true;
      isOld = false;
      try {
        setValue(await get<T>(path, abort.signal));
        setProblem(undefined);
      } catch (error) {
        if (abort.signal.aborted) return;
        setProblem(error instanceof Problem ? error : new Problem(0, "The appliance does not answer.", ""));
      }
      isAsking = false;
      if (isOld) schedule();
    };
    const schedule = (): void => {
      if (isAsking) isOld = true;
      else timer ??= setTimeout(() => void load(), SETTLE_MS);
    };
    const listener = (change: Change): void => {
      const isOurs = change.topic === "all" || topics.split(" ").includes(change.topic);
      if (isOurs && (!id || !change.id || change.id === id)) schedule();
    };
    listeners.add(listener);
    reload.current = schedule;
    void load();
    const beat = everySeconds
      ? setInterval(() => document.visibilityState === "visible" && schedule(), everySeconds * 1000)
      : undefined;
    return () => {
      listeners.delete(listener);
      abort.abort();
      clearTimeout(timer);
      clearInterval(beat);
    };
  }, [path, topics, id, everySeconds]);

  return { value, problem, reload: () => reload.current() };
}

setInterval(() => {
  if (document.visibilityState === "visible") now.value = Date.now();
}, 1000);
