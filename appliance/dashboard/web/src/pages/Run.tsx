/** One run: what it executes, what it prints, how its jobs train, and how it ended. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { ask, type Schemas } from "../api";
import { clock, duration, figure, size } from "../format";
import { now, useLive } from "../live";
import { mayEdit } from "../parts/account";
import { isEnded } from "../parts/actions";
import { Card, Empty, Facts, Labels, Phase, Title, Trouble } from "../parts/basics";
import { Dialog } from "../parts/Dialog";
import { Logs } from "../parts/LogView";
import { jobProgress } from "../parts/progress";
import { RunCurves } from "../parts/RunCurves";
import { commandLine, outputsOf } from "../parts/runTable";
import { RunSessions } from "../parts/RunSessions";
import { Table } from "../parts/Table";
import { perform } from "../parts/toasts";
import { ranFor, runTitle, stepText } from "./Runs";

type RunView = Schemas["Run"];
type Member = Schemas["JobSummary"];

export function Run({ id }: { id: string }): JSX.Element {
  const { value: run, problem, reload } = useLive<RunView>(`/runs/${id}`, { topics: ["job"], everySeconds: 5 });
  const [shown, setShown] = useState("");
  if (!run)
    return (
      <>
        <h1>{id}</h1>
        {problem ? <Trouble problem={problem} /> : <Empty>Loading</Empty>}
      </>
    );
  const trains = run.jobs.filter((job) => job.type === "execute");
  const line = { name: runTitle(run), jobs: trains.map((job) => ({ id: job.id, isEnded: isEnded(job) })) };
  return (
    <>
      <Title words={runTitle(run)} />
      <div class="title">
        <h1>{runTitle(run)}</h1>
        {run.name && <code class="quiet id">{run.id}</code>}
        <Phase phase={run.phase} />
        <span class="push">
          <Cancel run={run} onDone={reload} />
        </span>
      </div>
      <Trouble problem={problem} />
      <Why run={run} />
      <Overview run={run} />
      {trains.length > 0 && <RunCurves title="Training" lines={[line]} isApart={trains.length > 1} empty={run.ended_at ? "The run ended before its first step." : "The curves begin with the first step."} />}
      <Jobs run={run} />
      {trains.length > 0 && <Checkpoints id={run.id} />}
      {trains.slice(-1).map((job) => (
        <LastSessions key={job.id} job={job} />
      ))}
      <Logs id={run.log_job} pod={shown} onChoose={setShown} />
    </>
  );
}

/** Why the run stands where it does; of one that failed, what failed and where, before anything else. */
function Why({ run }: { run: RunView }): JSX.Element | null {
  if (run.phase !== "FAILED") return run.message ? <p class="quiet">{run.message}</p> : null;
  const failed = run.jobs.filter((job) => job.phase === "FAILED" && job.message && job.message !== run.message);
  return (
    <div class="card problem" role="note" aria-label="Why the run failed">
      <strong>{run.message || "It failed without a word; its log may say more."}</strong>
      {failed.map((job) => (
        <p key={job.id} class="small">
          <Link href={`/jobs/${job.id}`}>{job.id}</Link> ({job.type}): {job.message}
        </p>
      ))}
    </div>
  );
}

function Overview({ run }: { run: RunView }): JSX.Element {
  const values = outputsOf([run]).map((name) => [`Last ${name}`, figure(run.last_values[name] ?? NaN)] as const);
  return (
    <Card>
      <Facts
        of={[
          ["Script", run.kind === "detached" ? "run by the appliance" : "run in a terminal"],
          ["User", `${run.user || "uid"} (${run.uid})`],
          ["Session", run.session],
          ["Step", stepText(run)],
          ...values,
          ["Submitted", clock(run.created_at)],
          [run.ended_at ? "Ran for" : "Running for", ranFor(run)],
          ...(run.client_release ? [["Client", run.client_release] as const] : []),
          ...(run.git_commit ? [["Commit", `${run.git_commit.slice(0, 12)}${run.is_dirty ? " (changed)" : ""}`] as const] : []),
          ...(run.environment_digest ? [["Environment", run.environment_digest] as const] : []),
          ...(run.array
            ? [["Array", <Link href={`/runs?array=${run.array}`}>{`index ${run.index}`}</Link>] as const]
            : []),
        ]}
      />
      {run.argv.length > 0 && (
        <p class="small">
          <code>{commandLine(run.argv)}</code>
        </p>
      )}
      {run.work_dir && (
        <p class="small quiet">
          in <code>{run.work_dir}</code>
        </p>
      )}
      {Object.keys(run.labels).length > 0 && (
        <p>
          <Labels labels={run.labels} />
        </p>
      )}
    </Card>
  );
}

const Jobs = ({ run }: { run: RunView }): JSX.Element => (
  <Card title="Jobs" actions={<span class="quiet small numbers">{run.jobs.length}</span>}>
    <Table label="Jobs of the run">
      <thead>
        <tr>
          <th>Job</th>
          <th>Type</th>
          <th class="fit">Phase</th>
          <th>Systems</th>
          <th>Submitted</th>
          <th>Ran for</th>
          <th>Reason</th>
        </tr>
      </thead>
      <tbody>
        {run.jobs.map((job) => (
          <tr key={job.id}>
            <td>
              <Link class="id" href={`/jobs/${job.id}`}>
                {job.id}
              </Link>
            </td>
            <td>{job.type}</td>
            <td>
              <Phase phase={job.phase} />
            </td>
            <td>{job.systems.join(", ") || "-"}</td>
            <td class="numbers">{clock(job.created_at)}</td>
            <td class="numbers">{jobSpan(job)}</td>
            <td class="wide">{job.message}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  </Card>
);

function jobSpan(job: Member): string {
  if (!job.started_at) return "not started";
  return duration(Math.max((job.ended_at ? Date.parse(job.ended_at) : now.value) - Date.parse(job.started_at), 0) / 1000);
}

/** The states that a run's client has fetched, and the files that it has written meanwhile. */
function Checkpoints({ id }: { id: string }): JSX.Element | null {
  const found = useLive<Schemas["CheckpointList"]>(`/runs/${id}/checkpoints`, { topics: ["job"], everySeconds: 15 }).value;
  if (!found || found.items.length === 0) return null;
  return (
    <Card title="Checkpoints" actions={<span class="quiet small numbers">{found.items.length}</span>}>
      <p class="quiet small">Its client writes the files, and tells nobody where. {found.places}</p>
      <Table label={`Checkpoints of ${id}`}>
        <thead>
          <tr>
            <th class="fit">Time</th>
            <th>State</th>
            <th>File</th>
          </tr>
        </thead>
        <tbody>
          {found.items.map((made) => (
            <tr key={`${made.job_id}${made.at}`}>
              <td class="numbers">{clock(made.at)}</td>
              <td class="wide">{made.state}</td>
              <td class="wide">
                {made.files.length === 0 && <span class="quiet">none found</span>}
                {made.files.length > 1 && <span class="quiet">one of these, which other runs wrote too: </span>}
                {made.files.map((file) => (
                  <div key={file.path}>
                    <code>{file.path}</code> <span class="quiet small numbers">{size(file.num_bytes)}</span>
                  </div>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Card>
  );
}

/** How far the job is that trains or evaluates last, and what its sessions were. */
function LastSessions({ job }: { job: Member }): JSX.Element | null {
  const sessions = useLive<Schemas["RunSessionList"]>(`/jobs/${job.id}/sessions`, { topics: ["job", "progress"], id: job.id }).value?.items ?? [];
  if (sessions.length === 0) return null;
  return (
    <>
      <p class="quiet small">
        <Link href={`/jobs/${job.id}`}>{job.id}</Link>: {jobProgress(null, sessions, !isEnded(job))}
      </p>
      <RunSessions id={job.id} sessions={sessions} />
    </>
  );
}

function Cancel({ run, onDone }: { run: RunView; onDone: () => void }): JSX.Element | null {
  const [isOpen, setOpen] = useState(false);
  if (run.jobs.every(isEnded) || !mayEdit(run)) return null;
  const cancel = (): void => {
    void perform(() => ask(`/runs/${run.id}/cancel`, { method: "POST" }), `${runTitle(run)} is being cancelled.`).then((ok) => ok && onDone());
  };
  return (
    <>
      <button class="danger" onClick={() => setOpen(true)}>
        Cancel
      </button>
      {isOpen && (
        <Dialog title={`Cancel ${runTitle(run)}?`} confirm="Cancel the run" dismiss="Keep the run" tone="danger" onClose={() => setOpen(false)} onConfirm={cancel}>
          <p>Its script ends, and its jobs with it. What they have computed since the last checkpoint is lost; this cannot be undone.</p>
        </Dialog>
      )}
    </>
  );
}
