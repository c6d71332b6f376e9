/** What a person may do to a job: cancel, change priority, label. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, type Schemas } from "../api";
import { mayEdit } from "./account";
import { Dialog } from "./Dialog";
import { perform } from "./toasts";

type Summary = Schemas["JobSummary"];

const ENDED = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]);
export const isEnded = (job: { phase: string }): boolean => ENDED.has(job.phase);

const change = (id: string, body: object): Promise<unknown> => ask(`/jobs/${id}`, { method: "PATCH", body });

interface Props {
  job: Summary;
  /** Whether somebody holds the job back; undefined where that is not known. */
  isHeld?: boolean | undefined;
  onDone?: () => void;
}

export function JobActions({ job, isHeld, onDone }: Props): JSX.Element | null {
  const [open, setOpen] = useState<"cancel" | "priority" | "label">();
  if (!mayEdit(job)) return null;
  const close = (): void => setOpen(undefined);
  const done = (ok: boolean): void => {
    if (ok) onDone?.();
  };
  return (
    <span class="controls">
      {!isEnded(job) && (
        <>
          {job.phase === "QUEUED" && isHeld !== undefined && (
            <button onClick={() => void hold(job.id, isHeld).then(done)}>{isHeld ? "Release" : "Hold"}</button>
          )}
          <button onClick={() => setOpen("priority")}>Priority</button>
          <button onClick={() => setOpen("label")}>Labels</button>
          <button class="danger" onClick={() => setOpen("cancel")}>
            Cancel
          </button>
        </>
      )}
      {isEnded(job) && <button onClick={() => setOpen("label")}>Labels</button>}
      {open === "cancel" && (
        <Dialog
          title={`Cancel ${job.id}?`}
          confirm="Cancel the job"
          dismiss="Keep the job"
          tone="danger"
          onClose={close}
          onConfirm={() => void perform(() => ask(`/jobs/${job.id}/cancel`, { method: "POST" }), `${job.id} is being cancelled.`).then(done)}
        >
          <p>
            It is <strong>{job.phase}</strong>. What it has computed since its last checkpoint is lost; this cannot be undone.
          </p>
        </Dialog>
      )}
      {open === "priority" && (
        <Dialog
          title={`Priority of ${job.id}`}
          confirm="Change"
          dismiss="Leave unchanged"
          onClose={close}
          onConfirm={(form) =>
            void perform(
              () => change(job.id, { priority: String(form.get("priority")) }),
              `Priority of ${job.id} is ${form.get("priority")}.`,
              () => change(job.id, { priority: String(job.priority) }),
            ).then(done)
          }
        >
          <label class="field">
            p0 to p3, or a number from 0 (first) to 399
            <input name="priority" defaultValue={String(job.priority)} pattern="[pP][0-3]|[0-3]?[0-9]?[0-9]" required />
          </label>
        </Dialog>
      )}
      {open === "label" && <LabelDialog job={job} onClose={close} onDone={done} />}
    </span>
  );
}

/** Hold a job back, or release one that is held; either can be undone by the other. */
const hold = (id: string, isHeld: boolean): Promise<boolean> => {
  const say = (verb: "hold" | "release") => (): Promise<unknown> => ask(`/jobs/${id}/${verb}`, { method: "POST" });
  return isHeld ? perform(say("release"), `${id} may start.`, say("hold")) : perform(say("hold"), `${id} is held back.`, say("release"));
};

function LabelDialog({ job, onClose, onDone }: { job: Summary; onClose: () => void; onDone: (ok: boolean) => void }): JSX.Element {
  const submit = (form: FormData): void => {
    const labels: Record<string, string | null> = {};
    for (const key of Object.keys(job.labels)) if (!form.get(`keep:${key}`)) labels[key] = null;
    const key = String(form.get("key")).trim();
    if (key) labels[key] = String(form.get("value")).trim();
    const before = Object.fromEntries(Object.keys(labels).map((each) => [each, job.labels[each] ?? null]));
    void perform(
      () => change(job.id, { labels }),
      `Labels of ${job.id} changed.`,
      () => change(job.id, { labels: before }),
    ).then(onDone);
  };
  return (
    <Dialog title={`Labels of ${job.id}`} confirm="Change" dismiss="Leave unchanged" onClose={onClose} onConfirm={submit}>
      {Object.entries(job.labels).map(([key, value]) => (
        <label key={key}>
          <input type="checkbox" name={`keep:${key}`} defaultChecked /> keep{" "}
          <code>
            {key}={value}
          </code>
        </label>
      ))}
      <div class="form">
        <label class="field">
          New label
          <input name="key" maxLength={63} />
        </label>
        <label class="field">
          Value
          <input name="value" maxLength={63} />
        </label>
      </div>
    </Dialog>
  );
}
