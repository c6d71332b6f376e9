/** How far a session is, in the words of `csctl get job`. */

import { duration } from "../format";

interface Progress {
  completed_steps: number;
  num_steps: number;
  remaining_seconds?: number | null;
}

export function progressText({ completed_steps, num_steps, remaining_seconds }: Progress): string {
  const words = `step ${completed_steps.toLocaleString("en-US")} of ${num_steps.toLocaleString("en-US")}`;
  if (remaining_seconds === undefined || remaining_seconds === null || completed_steps >= num_steps) return words;
  return `${words}, ${duration(Math.max(Math.round(remaining_seconds), 1))} to go`;
}

/** How far a job is: its present session, else the last that it has run. */
export function jobProgress(present: Progress | null, sessions: readonly (Progress & { session: number })[], isRunning: boolean): string {
  if (present) return progressText(present);
  const last = sessions.at(-1);
  if (!last) return "none";
  const words = progressText({ completed_steps: last.completed_steps, num_steps: last.num_steps });
  const numbered = last.session > 1 ? `session ${last.session}: ${words}` : words;
  return isRunning ? `${numbered}, no session runs now` : numbered;
}
