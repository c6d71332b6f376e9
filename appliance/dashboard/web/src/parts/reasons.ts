/** Why a job waits, without the words that every reason begins and ends with (they are the client's) and without the
 * expected start, which has a place of its own. */
export function shortReason(reason: string): string {
  return reason.replace(/^job is queueing\. Job queue status: /, "").replace(/, expected to start [\s\S]*?(?=\. For more information|$)/, "").replace(/\.? For more information, please run .*$/, "");
}

/** What a job waits for, as `csctl get queue` says it: the jobs that block it, else the reason in a word. */
export const blockedBy = (waiting: { blocking: readonly string[]; kind: string }): { ids: readonly string[]; reason: string } => ({
  ids: waiting.blocking,
  reason: waiting.blocking.length ? "" : waiting.kind,
});

/** What an expected start rests on, without the job's name where that stands beside it, as the first that blocks. */
export const shortBasis = (basis: string, blocking: readonly string[]): string =>
  basis.replace(/^end of (wsjob-[a-z0-9]+), /, (words, job: string) => (job === blocking[0] ? "" : words));
