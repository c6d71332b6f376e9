/** What runs, what waits and why, what comes next. */

import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Link } from "wouter-preact";
import type { Schemas } from "../api";
import { clock, duration, percent } from "../format";
import { type Live, now, useLive, useWindow, type Window } from "../live";
import { isEnded, JobActions } from "../parts/actions";
import { Card, Empty, Facts, Labels, None, Phase, Trouble } from "../parts/basics";
import { Gantt } from "../parts/Gantt";
import { useAddress } from "../parts/address";
import { CHUNK } from "../parts/chunks";
import { Note } from "../parts/Dialog";
import { type JobLabels, JobName, nameOf } from "../parts/JobName";
import { type Column, type Order, Rows } from "../parts/Rows";
import { screenSize } from "../parts/screen";
import { blockedBy, shortBasis, shortReason } from "../parts/reasons";
import { type Bar, planned } from "../parts/timeline";
import { Table } from "../parts/Table";

type Summary = Schemas["JobSummary"];
type JobPage = Schemas["JobPage"];
type QueueView = Schemas["Queue"];
type Entry = Schemas["WaitingJob"];
type ClusterView = Schemas["ClusterView"];

const NO_JOBS: readonly Summary[] = [];

export function Queue(): JSX.Element {
  const queue = useWindow<Entry, QueueView>(`/queue?limit=${CHUNK}&cursor={offset}`, {
    topics: ["queue", "job"],
    everySeconds: 15,
  });
  const recent = useLive<JobPage>("/jobs?type=execute&all_states=true&order=newest&limit=200", { topics: ["job", "queue"] });
  const labels: JobLabels = useMemo(() => new Map(recent.value?.items.map((job) => [job.id, job.labels])), [recent.value]);
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
      <Plan queue={queue.head} recent={recent} />
      {queue.head && <Waiting queue={queue} labels={labels} />}
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
          ["Next to start", first ? <JobName id={first.job.id} labels={first.job.labels} /> : "nobody waits"],
          ["Expected", first ? (first.waiting.expected_start_at ? clock(first.waiting.expected_start_at) : "not known") : "-"],
          ["As of", queue.as_of ? clock(queue.as_of) : "-"],
        ]}
      />
    </Card>
  );
}

const WAITING_HEIGHTS = { desktop: 84, tablet: 176, phone: 300 };

function Waiting({ queue, labels }: { queue: Window<Entry, QueueView>; labels: JobLabels }): JSX.Element {
  const columns: Column<Entry>[] = [
    { name: "Job", width: "15.5rem", card: "title", cell: ({ job }) => <JobName id={job.id} labels={job.labels} /> },
    { name: "Place", width: "3rem", cell: ({ waiting }) => waiting.position },
    { name: "User", width: "4.5rem", cell: ({ job }) => job.user || job.uid },
    { name: "Why it waits", width: "minmax(10rem, 2fr)", card: "wide", cell: ({ waiting }) => <Reason waiting={waiting} /> },
    { name: "Expected start", width: "13rem", card: "wide", cell: ({ waiting }) => <Expected waiting={waiting} /> },
    { name: "Blocked by", width: "9rem", card: "wide", cell: ({ waiting }) => <Blocking waiting={waiting} labels={labels} /> },
    { name: "Actions", width: "16.5rem", card: "actions", cell: ({ job, waiting }) => <JobActions job={job} isHeld={waiting.kind === "Held"} onDone={queue.reload} /> },
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
          heights={WAITING_HEIGHTS}
          maxHeight="50vh"
        />
      )}
    </Card>
  );
}

/** Why a job waits; what does not fit its place is shown whole on request. */
function Reason({ waiting }: { waiting: Entry["waiting"] }): JSX.Element {
  const text = useRef<HTMLSpanElement>(null);
  const [isCut, setCut] = useState(false);
  const [isOpen, setOpen] = useState(false);
  const short = shortReason(waiting.reason);
  useLayoutEffect(() => {
    const element = text.current;
    if (!element) return;
    const measure = (): void => setCut(element.scrollHeight > element.clientHeight + 1);
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    measure();
    return () => watch.disconnect();
  }, [short]);
  return (
    <span>
      <span class="reason" ref={text}>
        {short}
      </span>
      {isCut && (
        <button class="plain more" onClick={() => setOpen(true)}>
          read all
        </button>
      )}
      {isOpen && (
        <Note title="Why it waits" onClose={() => setOpen(false)}>
          <p>{short}</p>
        </Note>
      )}
    </span>
  );
}

function Expected({ waiting }: { waiting: Entry["waiting"] }): JSX.Element {
  if (!waiting.expected_start_at) return <span class="quiet">not known</span>;
  const seconds = (Date.parse(waiting.expected_start_at) - now.value) / 1000;
  return (
    <span title={`${clock(waiting.expected_start_at)}: ${waiting.expected_start_basis}`}>
      {seconds > 0 ? `in ${duration(Math.round(seconds))}` : "now"}
      {waiting.is_promised && <span class="quiet"> or earlier</span>}{" "}
      <span class="quiet small basis">{shortBasis(waiting.expected_start_basis, waiting.blocking)}</span>
    </span>
  );
}

const Blocking = ({ waiting, labels }: { waiting: Entry["waiting"]; labels: JobLabels }): JSX.Element => {
  const { ids, reason } = blockedBy(waiting);
  const [first] = ids;
  if (!first) return <span class="quiet">{reason}</span>;
  const name = nameOf(labels.get(first));
  return (
    <span class={name ? "blocking" : "blocking nameless"}>
      <Link class="id" href={`/jobs/${first}`} title={ids.join(", ")}>
        {name || first}
      </Link>
      {ids.length > 1 && <span class="quiet"> and {ids.length - 1} more</span>}
    </span>
  );
};

function Plan({ queue, recent }: { queue: QueueView | undefined; recent: Live<JobPage> }): JSX.Element {
  const jobs = recent.value?.items ?? NO_JOBS;
  const cluster = useLive<ClusterView>("/cluster", { topics: ["system"] });
  const rows = cluster.value?.systems.map((each) => each.name) ?? [];
  const bars = useMemo(() => barsOf(jobs, queue?.items ?? []), [jobs, queue, Math.floor(now.value / 10_000)]);
  return (
    <Card title="Systems over time">
      {bars.length === 0 ? <None of={recent}>No job has held a system yet.</None> : <Gantt rows={planRows(rows, bars)} bars={bars} />}
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
      name: nameOf(job.labels),
      phase: job.phase as string,
      start: Math.max(Date.parse(job.started_at as string), present - HORIZON_MS),
      end,
      isPlanned: false,
    }));
  });
  const starts = waiting.flatMap(({ job, waiting: { expected_start_at, expected_run_seconds } }) =>
    expected_start_at && job.type === "execute"
      ? [{ job: job.id, name: nameOf(job.labels), start: Math.max(Date.parse(expected_start_at), present), run: expected_run_seconds === null ? null : expected_run_seconds * 1000 }]
      : [],
  );
  return [...past, ...planned(starts, present + HORIZON_MS)];
}

const SCOPES: Record<string, string> = {
  unfinished: "",
  mine: "&mine=true&all_states=true&order=newest",
  all: "&all_states=true&order=newest",
};

const JOBS_HEIGHTS = { desktop: 54, tablet: 126, phone: 186 };

function Jobs(): JSX.Element {
  const address = useAddress();
  const scope = address.get("jobs") in SCOPES ? address.get("jobs") : "unfinished";
  const text = address.get("text");
  const order: Order = { by: address.get("sort"), descending: address.get("descending") !== "" };
  const path = `/jobs?limit=${CHUNK}&with_total=true&offset={offset}${SCOPES[scope]}${query({ text, sort: order.by, descending: order.descending ? "true" : "" })}`;
  const jobs = useWindow<Summary, JobPage>(path, { topics: ["job", "queue"] });
  const setOrder = ({ by, descending }: Order): void => address.set({ sort: by, descending: descending ? "1" : "" });
  const columns: Column<Summary>[] = [
    { name: "Job", width: "15.5rem", card: "title", cell: (job) => <JobName id={job.id} labels={job.labels} /> },
    { name: "Phase", width: "7.5rem", sort: "phase", cell: (job) => <Phase phase={job.phase} /> },
    { name: "Type", width: "6rem", sort: "type", cell: (job) => job.type },
    { name: "User", width: "5rem", sort: "user", cell: (job) => job.user || job.uid },
    { name: "Priority", width: "4.5rem", sort: "priority", cell: (job) => job.priority },
    { name: "Systems", width: "5.2rem", sort: "systems", cell: (job) => job.num_systems },
    { name: "Submitted", width: "8.5rem", sort: "submitted", cell: (job) => clock(job.created_at) },
    { name: "Labels", width: "minmax(7rem, 1fr)", card: "wide", cell: (job) => LabelLines({ labels: withoutName(job.labels) }) },
    { name: "Actions", width: "13rem", card: "actions", cell: (job) => (isEnded(job) ? null : <JobActions job={job} onDone={jobs.reload} />) },
  ];
  return (
    <Card
      title="Jobs"
      actions={
        <>
          <select value={scope} aria-label="Which jobs" onChange={(event) => address.set({ jobs: event.currentTarget.value === "unfinished" ? "" : event.currentTarget.value })}>
            <option value="unfinished">unfinished</option>
            <option value="mine">mine</option>
            <option value="all">all</option>
          </select>
          <input
            type="search"
            placeholder="Id, user, label, phase, type"
            aria-label="Search jobs"
            value={text}
            onInput={(event) => address.set({ text: event.currentTarget.value })}
          />
          {screenSize.value !== "desktop" && <SortChoice columns={columns} order={order} onOrder={setOrder} />}
          <span class="quiet small numbers count">{jobs.total.toLocaleString("en-US")} jobs</span>
        </>
      }
    >
      <Trouble problem={jobs.problem} />
      {jobs.total === 0 ? (
        jobs.head && <Empty>{text ? `No job in this list has "${text}".` : scope === "unfinished" ? "No job runs or waits." : "There is no job yet."}</Empty>
      ) : (
        <Rows
          label="Jobs"
          total={jobs.total}
          at={jobs.at}
          onSpan={jobs.show}
          keyOf={(job) => job.id}
          columns={columns}
          heights={JOBS_HEIGHTS}
          order={order}
          onOrder={setOrder}
        />
      )}
    </Card>
  );
}

/** As many labels as a card, or a row, has place for; the others are on the job's page. */
const LabelLines = ({ labels }: { labels: Readonly<Record<string, string>> }): JSX.Element | null =>
  Object.keys(labels).length === 0 ? null : (
    <span class="labels">
      <Labels labels={labels} />
    </span>
  );

const query = (values: Readonly<Record<string, string>>): string =>
  Object.entries(values)
    .filter(([, value]) => value)
    .map(([name, value]) => `&${name}=${encodeURIComponent(value)}`)
    .join("");

const withoutName = (labels: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(labels).filter(([key]) => key !== "name"));

/** What the heads of columns do where there are none, over cards. */
function SortChoice<T>({ columns, order, onOrder }: { columns: readonly Column<T>[]; order: Order; onOrder: (order: Order) => void }): JSX.Element {
  const chosen = order.by ? `${order.by} ${order.descending ? "down" : "up"}` : "";
  const choose = (value: string): void => {
    const [by = "", way] = value.split(" ");
    onOrder({ by, descending: way === "down" });
  };
  return (
    <select aria-label="Order" value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
      <option value="">usual order</option>
      {columns.flatMap(({ name, sort }) =>
        sort
          ? ["up", "down"].map((way) => (
              <option key={sort + way} value={`${sort} ${way}`}>
                {name} {way === "up" ? "\u2191" : "\u2193"}
              </option>
            ))
          : [],
      )}
    </select>
  );
}

type Shares = Schemas["Shares"];

function FairShare(): JSX.Element {
  const shares = useLive<Shares>("/queue/shares", { topics: ["job"], everySeconds: 30 });
  const { value } = shares;
  return (
    <Card title="Fair share">
      {!value || value.items.length === 0 ? (
        <None of={shares}>Nobody has used a system lately.</None>
      ) : (
        <Table>
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
        </Table>
      )}
    </Card>
  );
}
