/** What an event means that comes without a message of its own: the changes of phase. */

const MEANINGS: Readonly<Record<string, string>> = {
  JobCreated: "The job was submitted.",
  JobQueued: "It waits for its systems and nodes.",
  JobScheduled: "It has its systems and nodes.",
  JobInitializing: "Its pods start.",
  JobRunning: "All pods are there; the client may begin.",
  JobFailing: "Its pods are being stopped.",
  JobSucceeded: "It has ended as it should.",
  JobFailed: "It has ended with a failure.",
  JobCancelled: "It was cancelled.",
};

export const eventText = ({ reason, message }: { reason: string; message: string }): string => message || (MEANINGS[reason] ?? "");
