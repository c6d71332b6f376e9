/** The series of jobs, followed as they grow; only what is new crosses the wire. */

import { useEffect, useState } from "preact/hooks";
import { get, type Schemas } from "../api";
import { apart, type Curve, merge, StepCounter } from "./curves";

type Answer = Schemas["Series"];
type Sessions = Schemas["RunSessionList"];

export interface Training {
  curves: Record<string, Curve>;
  /** What the outputs are, by name. */
  titles: Record<string, string>;
}

export const NO_TRAINING: Training = { curves: {}, titles: {} };

export interface Followed {
  id: string;
  isEnded: boolean;
}

const SETTLED_MS = { news: 1000, running: 2000, failed: 5000, ended: 30_000 };

/** Tell of the series of a job, first all that there is, then what is new; returns what ends it. */
function follow({ id, isEnded }: Followed, tell: (fresh: Training) => void): () => void {
  const abort = new AbortController();
  const counters = new Map<string, StepCounter>();
  const known = new Set<number>();
  const evaluations = new Set<number>();
  let after = "0";
  let timer: ReturnType<typeof setTimeout> | undefined;

  const counterOf = (name: string): StepCounter => {
    const found = counters.get(name) ?? new StepCounter();
    counters.set(name, found);
    return found;
  };
  const learnKinds = async (series: Answer["series"]): Promise<void> => {
    const sessions = new Set(Object.values(series).flatMap((points) => points.map((point) => point.session)));
    if ([...sessions].every((session) => known.has(session))) return;
    const { items } = await get<Sessions>(`/jobs/${id}/sessions`, abort.signal);
    for (const { session, is_training } of items) {
      known.add(session);
      if (!is_training) evaluations.add(session);
    }
  };
  const ask = async (): Promise<void> => {
    try {
      const answer = await get<Answer>(`/jobs/${id}/series?after=${after}`, abort.signal);
      const isNews = answer.next !== after;
      await learnKinds(answer.series);
      after = answer.next;
      if (isNews) {
        const placed = Object.entries(apart(answer.series, evaluations)).map(([name, points]) => [name, counterOf(name).place(points)] as const);
        tell({ curves: Object.fromEntries(placed), titles: answer.titles });
      }
      timer = setTimeout(() => void ask(), isNews ? SETTLED_MS.news : isEnded ? SETTLED_MS.ended : SETTLED_MS.running);
    } catch {
      if (!abort.signal.aborted) timer = setTimeout(() => void ask(), SETTLED_MS.failed);
    }
  };
  void ask();
  return () => {
    abort.abort();
    clearTimeout(timer);
  };
}

/** Follow the series of jobs, by their ids. */
export function useSeries(jobs: readonly Followed[]): ReadonlyMap<string, Training> {
  const [found, setFound] = useState<ReadonlyMap<string, Training>>(new Map());
  const key = jobs.map((job) => `${job.id} ${job.isEnded}`).join(",");
  useEffect(() => {
    setFound(new Map());
    const ends = jobs.map((job) =>
      follow(job, (fresh) =>
        setFound((old) => {
          const before = old.get(job.id) ?? NO_TRAINING;
          return new Map(old).set(job.id, { curves: merge(before.curves, fresh.curves), titles: { ...before.titles, ...fresh.titles } });
        }),
      ),
    );
    return () => ends.forEach((end) => end());
  }, [key]);
  return found;
}
