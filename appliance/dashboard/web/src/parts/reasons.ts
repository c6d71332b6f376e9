/** Why a job waits, without the words that every reason begins and ends with (they are the client's). */
export function shortReason(reason: string): string {
  return reason.replace(/^job is queueing\. Job queue status: /, "").replace(/\.? For more information, please run .*$/, "");
}
