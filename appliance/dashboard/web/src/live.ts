/** Live data: one event stream for the whole page tells what changed; views then ask again. */

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, needsLogin, Problem } from "./api";
import { CHUNK, forgettable, wantedChunks } from "./parts/chunks";

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
/** Rows that are only passed while scrolling are not asked for. */
const SCROLL_MS = 60;

/** After an answer that failed; the rows are asked for again then. */
const RETRY_MS = 2000;

interface Keeper {
  schedule: () => void;
  stop: () => void;
}

/** Call `load` now and again after each change that matters; bursts of changes cost one call, and no
 * call begins before the last one has ended. */
function keepFresh(wanted: Wanted, load: (abort: AbortSignal) => Promise<void>): Keeper {
  const abort = new AbortController();
  let isAsking = false;
  let isOld = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const run = async (): Promise<void> => {
    timer = undefined;
    isAsking = true;
    isOld = false;
    await load(abort.signal);
    isAsking = false;
    if (isOld && !abort.signal.aborted) schedule();
  };
  const schedule = (): void => {
    if (isAsking) isOld = true;
    else timer ??= setTimeout(() => void run(), SETTLE_MS);
  };
  const listener = (change: Change): void => {
    const isOurs = change.topic === "all" || wanted.topics.includes(change.topic);
    if (isOurs && (!wanted.id || !change.id || change.id === wanted.id)) schedule();
  };
  listeners.add(listener);
  void run();
  const beat = wanted.everySeconds
    ? setInterval(() => document.visibilityState === "visible" && schedule(), wanted.everySeconds * 1000)
    : undefined;
  const stop = (): void => {
    listeners.delete(listener);
    abort.abort();
    clearTimeout(timer);
    clearInterval(beat);
  };
  return { schedule, stop };
}

const problemOf = (error: unknown): Problem =>
  error instanceof Problem ? error : new Problem(0, "The appliance does not answer.", "");

/** Hold the answer to `path` fresh. */
export function useLive<T>(path: string | null, wanted: Wanted): Live<T> {
  const [value, setValue] = useState<T>();
  const [problem, setProblem] = useState<Problem>();
  const reload = useRef<() => void>(() => {});
  const { id, everySeconds } = wanted;
  const topics = wanted.topics.join(" ");

  useEffect(() => {
    if (path === null) return;
    const keeper = keepFresh({ ...wanted, topics: topics.split(" ") }, async (abort) => {
      try {
        setValue(await get<T>(path, abort));
        setProblem(undefined);
      } catch (error) {
        if (abort.aborted) return;
        const found = problemOf(error);
        setProblem(found);
        if (found.status === 404) setValue(undefined); // what was shown is not of this path, or is gone
      }
    });
    reload.current = keeper.schedule;
    return keeper.stop;
  }, [path, topics, id, everySeconds]);

  return { value, problem, reload: () => reload.current() };
}

/** One answer of a list. */
export interface Page<T> {
  items: T[];
  total: number | null;
}

export interface Window<T, P extends Page<T>> {
  /** How many rows the whole list has. */
  total: number;
  /** A row; undefined where it has not come yet. */
  at: (index: number) => T | undefined;
  /** The first answer, with whatever else it says. */
  head: P | undefined;
  /** Say which rows are seen; they are asked for and held fresh. */
  show: (first: number, end: number) => void;
  problem: Problem | undefined;
  reload: () => void;
}

/** Hold what is seen of a long list fresh. `path` has `{offset}` in it, and asks for `CHUNK` rows. */
export function useWindow<T, P extends Page<T>>(path: string, wanted: Wanted): Window<T, P> {
  const [, redraw] = useState(0);
  const [problem, setProblem] = useState<Problem>();
  const list = useRef(new ChunkedList<P>());
  const keeper = useRef<Keeper>({ schedule: () => {}, stop: () => {} });
  const settling = useRef<ReturnType<typeof setTimeout>>();
  const fetchChunk = useRef<(offset: number) => Promise<void>>(async () => {});
  const topics = wanted.topics.join(" ");
  const { everySeconds } = wanted;

  useEffect(() => {
    const abort = new AbortController();
    let isOfOldPath = true;
    fetchChunk.current = async (offset) => {
      const { chunks, asked } = list.current;
      asked.add(offset);
      try {
        const page = await get<P>(path.replace("{offset}", String(offset)), abort.signal);
        if (isOfOldPath) chunks.clear(); // until now the rows of the old path were better than none
        isOfOldPath = false;
        chunks.set(offset, page);
        asked.delete(offset);
        for (const old of forgettable(chunks.keys(), list.current.needed())) chunks.delete(old);
        setProblem(undefined);
      } catch (error) {
        // It stays in `asked` for a while: not every drawing of the page asks again. Where nothing
        // changes nobody else would, and the rows seen would never come.
        if (!abort.signal.aborted) {
          setProblem(problemOf(error));
          setTimeout(() => {
            asked.delete(offset);
            if (!abort.signal.aborted) redraw((count) => count + 1);
          }, RETRY_MS);
        }
      }
      if (!abort.signal.aborted) redraw((count) => count + 1);
    };
    keeper.current = keepFresh({ ...wanted, topics: topics.split(" ") }, async () => {
      const { chunks, asked } = list.current;
      const needed = isOfOldPath ? [0] : list.current.needed();
      asked.clear();
      for (const offset of [...chunks.keys()]) if (!needed.includes(offset) && !isOfOldPath) chunks.delete(offset);
      await Promise.all(needed.map(fetchChunk.current));
    });
    return () => {
      keeper.current.stop();
      abort.abort();
      clearTimeout(settling.current);
      list.current.asked.clear();
    };
  }, [path, topics, everySeconds]);

  return {
    total: list.current.total,
    at: (index) => list.current.chunks.get(Math.floor(index / CHUNK) * CHUNK)?.items[index % CHUNK],
    head: list.current.chunks.get(0),
    show: (first, end) => {
      list.current.first = first;
      list.current.end = end;
      clearTimeout(settling.current);
      if (list.current.missing().length === 0) return;
      settling.current = setTimeout(() => {
        for (const offset of list.current.missing()) void fetchChunk.current(offset);
      }, SCROLL_MS);
    },
    problem,
    reload: () => keeper.current.schedule(),
  };
}

/** The chunks of a list that are there, and the rows that are seen. */
class ChunkedList<P extends Page<unknown>> {
  readonly chunks = new Map<number, P>();
  readonly asked = new Set<number>();
  first = 0;
  end = 0;

  get total(): number {
    return this.chunks.get(0)?.total ?? 0;
  }

  needed(): number[] {
    return wantedChunks(this.first, this.end, this.total);
  }

  missing(): number[] {
    return this.needed().filter((offset) => !this.chunks.has(offset) && !this.asked.has(offset));
  }
}

setInterval(() => {
  if (document.visibilityState === "visible") now.value = Date.now();
}, 1000);
