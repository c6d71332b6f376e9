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
