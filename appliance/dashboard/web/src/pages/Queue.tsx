/** What runs, what waits and why, what comes next. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Link } from "wouter-preact";
import type { Schemas } from "../api";
import { clock, duration, percent } from "../format";
import { now, useLive, useWindow, type Window } from "../live";
import { isEnded, JobActions } from "../parts/actions";
import { Card, Empty, Facts, Labels, Phase, Trouble } from "../parts/basics";
import { Gantt } from "../parts/Gantt";
import { CHUNK } from "../parts/chunks";
import { type Column, Rows } from "../parts/Rows";
import { blockedBy, shortBasis, shortReason } from "../parts/reasons";
import { type Bar, planned } from "../parts/timeline";

type Summary = Schemas["JobSummary"];
type JobPage = Schemas["JobPage"];
type QueueView = Schemas["Queue"];
type Entry = Schemas["WaitingJob"];
type ClusterView = Schemas["ClusterView"];

export function Queue(): JSX.Element {
  const queue = useWindow<Entry, QueueView>(`/queue?limit=${CHUNK}&cursor={offset}`, {
    topics: ["queue", "job"],
    everySeconds: 15,
  });
  return (
    <>
      <h1>Queue</h1>
      <Trouble problem={queue.problem} />
      {queue.head?.stopped && (
        <div class="card problem" role="alert">
          <strong>Nothing is started now: {queue.head.stopped}.</strong>
        </div>
      )}
      {queue.head && <Head queue={queue.head} />}
      <Plan queue={queue.head} />
      {queue.head && <Waiting queue={queue} />}
      <Jobs />
      <FairShare />
    </>
  );
}

function Head({ queue }: { queue: QueueView }): JSX.Element {
  const [first] = queue.items;
  return (
    <Card>
      <Facts
        of={[
          ["Waiting jobs", String(queue.total)],
          ["Next to start", first ? <Link href={`/jobs/${first.job.id}`}>{first.job.id}</Link> : "nobody waits"],
          ["Expected", first ? (first.waiting.expected_start_at ? clock(first.waiting.expected_start_at) : "not known") : "-"],
          ["As of", queue.as_of ? clock(queue.as_of) : "-"],
        ]}
      />
    </Card>
  );
}

function Waiting({ queue }: { queue: Window<Entry, QueueView> }): JSX.Element {
  const columns: Column<Entry>[] = [
    { name: "Place", width: "3.5rem", cell: ({ waiting }) => waiting.position },
    { name: "Job", width: "15.5rem", cell: ({ job }) => <Link href={`/jobs/${job.id}`}>{job.id}</Link> },
    { name: "User", width: "4.5rem", cell: ({ job }) => job.user || job.uid },
    { name: "Why it waits", width: "minmax(10rem, 2fr)", cell: ({ waiting }) => <span title={waiting.reason}>{shortReason(waiting.reason)}</span> },
    { name: "Expected start", width: "11.5rem", cell: ({ waiting }) => <Expected waiting={waiting} /> },
    { name: "Blocked by", width: "9rem", cell: ({ waiting }) => <Blocking waiting={waiting} /> },
    { name: "", width: "17rem", cell: ({ job, waiting }) => <JobActions job={job} isHeld={waiting.kind === "Held"} onDone={queue.reload} /> },
  ];
  return (
    <Card title="Waiting">
      {queue.total === 0 ? (
        <Empty>Nobody waits.</Empty>
      ) : (
        <Rows
          label="Waiting jobs"
          total={queue.total}
          at={queue.at}
          onSpan={queue.show}
          keyOf={({ job }) => job.id}
          columns={columns}
          maxHeight="50vh"
        />
      )}
    </Card>
  );
}

function Expected({ waiting }: { waiting: Entry["waiting"] }): JSX.Element {
  if (!waiting.expected_start_at) return <span class="quiet">not known</span>;
  const seconds = (Date.parse(waiting.expected_start_at) - now.value) / 1000;
  return (
    <span title={`${clock(waiting.expected_start_at)}: ${waiting.expected_start_basis}`}>
      {seconds > 0 ? `in ${duration(Math.round(seconds))}` : "now"}
      {waiting.is_promised && <span class="quiet"> or earlier</span>}
      <div class="quiet small">{shortBasis(waiting.expected_start_basis)}</div>
    </span>
  );
}

const Blocking = ({ waiting }: { waiting: Entry["waiting"] }): JSX.Element => {
  const { ids, reason } = blockedBy(waiting);
  const [first] = ids;
  if (!first) return <span class="quiet">{reason}</span>;
  return (
    <>
      <Link href={`/jobs/${first}`} title={ids.join(", ")}>
        {first}
      </Link>
      {ids.length > 1 && <span class="quiet"> and {ids.length - 1} more</span>}
    </>
  );
};

function Plan({ queue }: { queue: QueueView | undefined }): JSX.Element {
  const cluster = useLive<ClusterView>("/cluster", { topics: ["system"] });
  const jobs = useLive<JobPage>("/jobs?type=execute&all_states=true&order=newest&limit=200", { topics: ["job", "queue"] });
  const rows = cluster.value?.systems.map((each) => each.name) ?? [];
  const bars = useMemo(() => barsOf(jobs.value?.items ?? [], queue?.items ?? []), [jobs.value, queue, Math.floor(now.value / 10_000)]);
  return (
    <Card title="Systems over time">
      {bars.length === 0 ? <Empty>No job has held a system yet.</Empty> : <Gantt rows={planRows(rows, bars)} bars={bars} />}
    </Card>
  );
}

const MAX_ROWS = 24;

const planRows = (systems: readonly string[], bars: readonly Bar[]): string[] => {
  const used = systems.length > MAX_ROWS ? systems.filter((each) => bars.some((bar) => bar.row === each)) : systems;
  const next = new Set(bars.filter((bar) => bar.isPlanned).map((bar) => bar.row));
  return [...used.slice(0, MAX_ROWS), ...next];
};

const HORIZON_MS = 6 * 3_600_000;

/** Bars of the past and present from the jobs, of the future from what the queue expects. */
function barsOf(jobs: readonly Summary[], waiting: readonly Entry[]): Bar[] {
  const present = Date.now();
  const past = jobs.flatMap((job) => {
    if (!job.started_at) return [];
    const end = job.ended_at ? Date.parse(job.ended_at) : present;
    if (end < present - HORIZON_MS) return [];
    return job.systems.map((row) => ({
      row,
      job: job.id,
      phase: job.phase as string,
      start: Math.max(Date.parse(job.started_at as string), present - HORIZON_MS),
      end,
      isPlanned: false,
    }));
  });
  const starts = waiting.flatMap(({ job, waiting: { expected_start_at, expected_run_seconds } }) =>
    expected_start_at && job.type === "execute"
      ? [{ job: job.id, start: Math.max(Date.parse(expected_start_at), present), run: expected_run_seconds === null ? null : expected_run_seconds * 1000 }]
      : [],
  );
  return [...past, ...planned(starts, present + HORIZON_MS)];
}

const SCOPES: Record<string, string> = {
  unfinished: "",
  mine: "&mine=true&all_states=true&order=newest",
  all: "&all_states=true&order=newest",
};

function Jobs(): JSX.Element {
  const [scope, setScope] = useState("unfinished");
  const [text, setText] = useState("");
  const path = `/jobs?limit=${CHUNK}&with_total=true&offset={offset}${SCOPES[scope]}${text ? `&text=${encodeURIComponent(text)}` : ""}`;
  const jobs = useWindow<Summary, JobPage>(path, { topics: ["job", "queue"] });
  const columns: Column<Summary>[] = [
    { name: "Job", width: "15.5rem", cell: (job) => <Link href={`/jobs/${job.id}`}>{job.id}</Link> },
    { name: "Phase", width: "8.5rem", cell: (job) => <Phase phase={job.phase} /> },
    { name: "Type", width: "4.5rem", cell: (job) => job.type },
    { name: "User", width: "5rem", cell: (job) => job.user || job.uid },
    { name: "Priority", width: "4.5rem", cell: (job) => job.priority },
    { name: "Systems", width: "4.5rem", cell: (job) => job.num_systems },
    { name: "Submitted", width: "8.5rem", cell: (job) => clock(job.created_at) },
    { name: "Labels", width: "minmax(7rem, 1fr)", cell: (job) => <Labels labels={job.labels} /> },
    { name: "", width: "15.5rem", cell: (job) => (isEnded(job) ? null : <JobActions job={job} onDone={jobs.reload} />) },
  ];
  return (
    <Card
      title="Jobs"
      actions={
        <>
          <select value={scope} aria-label="Which jobs" onChange={(event) => setScope(event.currentTarget.value)}>
            <option value="unfinished">unfinished</option>
            <option value="mine">mine</option>
            <option value="all">all</option>
          </select>
          <input type="search" placeholder="Search" aria-label="Search jobs" value={text} onInput={(event) => setText(event.currentTarget.value)} />
          <span class="quiet small numbers">{jobs.total} jobs</span>
        </>
      }
    >
      <Trouble problem={jobs.problem} />
      {jobs.total === 0 ? (
        jobs.head && <Empty>No job here.</Empty>
      ) : (
        <Rows label="Jobs" total={jobs.total} at={jobs.at} onSpan={jobs.show} keyOf={(job) => job.id} columns={columns} />
      )}
    </Card>
  );
}

type Shares = Schemas["Shares"];

function FairShare(): JSX.Element {
  const { value } = useLive<Shares>("/queue/shares", { topics: ["job"], everySeconds: 30 });
  return (
    <Card title="Fair share">
      {!value || value.items.length === 0 ? (
        <Empty>Nobody has used a system lately.</Empty>
      ) : (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>User</th>
                <th>Session</th>
                <th class="num">System time, decayed</th>
                <th class="num">Share of use</th>
              </tr>
            </thead>
            <tbody>
              {value.items.map((each) => (
                <tr key={`${each.session}/${each.user}`}>
                  <td>{each.user}</td>
                  <td>{each.session}</td>
                  <td class="num">{duration(each.system_seconds)}</td>
                  <td class="num">{percent(each.share)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}
