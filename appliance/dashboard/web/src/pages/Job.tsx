/** One job: where it stands, why, how training goes, and where the wafer's time goes. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import type { Schemas } from "../api";
import { clock, duration, figure, percent, rate, size } from "../format";
import { now, useLive } from "../live";
import { isEnded, JobActions } from "../parts/actions";
import { Card, Empty, Facts, Labels, Phase, Share, Title, Trouble } from "../parts/basics";
import { Curves } from "../parts/Curves";
import { eventText } from "../parts/events";
import { nameOf } from "../parts/JobName";
import { Logs } from "../parts/LogView";
import { ModuleProfile } from "../parts/ModuleProfile";
import { jobProgress, progressText } from "../parts/progress";
import { shortReason } from "../parts/reasons";
import { RunSessions } from "../parts/RunSessions";
import { SwarmxTree } from "../parts/SwarmxTree";
import { Table } from "../parts/Table";

type JobView = Schemas["Job"];
type Pod = Schemas["Pod"];

const SIMULATED_STEP = "wsc_csx_simulated_step_seconds";
const SIMULATED_RATE = "wsc_csx_simulated_samples_per_second";
const SIMULATED_USE = "wsc_csx_simulated_utilization_ratio";
const WEIGHTS_IN = "wsc_csx_simulated_weight_bytes_per_second";
const GRADIENTS_OUT = "wsc_csx_simulated_gradient_bytes_per_second";
const WALL_STEP = "wsc_csx_step_seconds";

export function Job({ id }: { id: string }): JSX.Element {
  const { value: job, problem, reload } = useLive<JobView>(`/jobs/${id}`, { topics: ["job", "progress", "queue"], id, everySeconds: 15 });
  const hasSessions = job?.type === "execute" && job.num_run_sessions > 0;
  const sessions = useLive<Schemas["RunSessionList"]>(hasSessions ? `/jobs/${id}/sessions` : null, { topics: ["job", "progress"], id }).value?.items ?? [];
  const [shown, setShown] = useState("");
  if (!job)
    return (
      <>
        <h1>{id}</h1>
        {problem ? <Trouble problem={problem} /> : <Empty>Loading</Empty>}
      </>
    );
  const name = nameOf(job.labels);
  return (
    <>
      <Title words={name || job.id} />
      <div class="title">
        <h1>{name || job.id}</h1>
        {name && <code class="quiet id">{job.id}</code>}
        <Phase phase={job.phase} />
        <span class="push">
          <JobActions job={job} isHeld={job.held_by !== ""} onDone={reload} />
        </span>
      </div>
      <Trouble problem={problem} />
      {job.message && <p class="quiet">{job.message}</p>}
      {job.detail && (
        <details>
          <summary>All of it</summary>
          <pre class="log fit">{job.detail}</pre>
        </details>
      )}
      <ProgressBar job={job} />
      <Overview job={job} sessions={sessions} />
      {sessions.length > 0 && <RunSessions id={id} sessions={sessions} />}
      {job.waiting && <WaitingCard waiting={job.waiting} />}
      <PhaseLine job={job} />
      {job.type === "execute" && <Curves id={id} isEnded={isEnded(job)} />}
      {job.type === "execute" && <Simulated pods={job.pods} id={id} />}
      {job.type === "execute" && <ModuleProfile id={id} isLoaded={job.pods.some((pod) => SIMULATED_STEP in pod.readings)} isEnded={isEnded(job)} />}
      {job.type === "execute" && <SwarmxTree id={id} />}
      {job.type.startsWith("sdk-") && <FabricCard job={job} />}
      <Pods job={job} shown={shown} onShow={setShown} />
      <Logs id={id} pod={shown} onChoose={setShown} />
      <Events events={job.events} />
      <Configuration id={id} />
    </>
  );
}

/** How far a running job is, at a glance. */
function ProgressBar({ job }: { job: JobView }): JSX.Element | null {
  const { progress } = job;
  if (!progress || progress.num_steps === 0) return null;
  const words = progressText(progress);
  return (
    <div class="progress">
      <Share share={progress.completed_steps / progress.num_steps} label={words} />
      <span class="numbers">{words}</span>
    </div>
  );
}

function Overview({ job, sessions }: { job: JobView; sessions: readonly Schemas["RunSession"][] }): JSX.Element {
  const end = job.ended_at ? Date.parse(job.ended_at) : now.value;
  return (
    <Card>
      <Facts
        of={[
          ["Type", job.type],
          ["User", `${job.user || "uid"} (${job.uid})`],
          ["Session", job.session],
          ["Priority", String(job.priority)],
          ["Systems", job.systems.length ? job.systems.join(", ") : `${job.num_systems} wanted`],
          ...(job.progress ? [] : [["Progress", jobProgress(null, sessions, !isEnded(job))] as const]),
          ["Submitted", clock(job.created_at)],
          [job.ended_at ? "Ran for" : "Running for", job.started_at ? duration((end - Date.parse(job.started_at)) / 1000) : "not started"],
          ["Run", <Link class="id" href={`/runs/${job.workflow}`}>{job.workflow}</Link>],
          ...(job.client_release ? [["Client", job.client_release] as const] : []),
        ]}
      />
      {Object.keys(job.labels).length > 0 && (
        <p>
          <Labels labels={job.labels} />
        </p>
      )}
    </Card>
  );
}

export function WaitingCard({ waiting }: { waiting: NonNullable<JobView["waiting"]> }): JSX.Element {
  return (
    <Card title="Why it waits">
      <p>{shortReason(waiting.reason)}</p>
      <Facts
        of={[
          ["Reason", waiting.kind],
          ["Place in the queue", waiting.position <= 1 ? "next" : String(waiting.position)],
          [
            "Expected start",
            waiting.expected_start_at
              ? `${clock(waiting.expected_start_at)}${waiting.is_promised ? " or earlier" : ""}`
              : "not known",
          ],
          ["Because", waiting.expected_start_basis || "nothing is known of the jobs before it"],
        ]}
      />
      {waiting.blocking.length > 0 && <JobList title="Blocked by" ids={waiting.blocking} />}
      {waiting.behind.length > 0 && <JobList title="May not delay" ids={waiting.behind} />}
    </Card>
  );
}

const JobList = ({ title, ids }: { title: string; ids: readonly string[] }): JSX.Element => (
  <p class="small">
    {title}:{" "}
    {ids.map((id) => (
      <Link class="tag" key={id} href={`/jobs/${id}`}>
        {id}
      </Link>
    ))}
  </p>
);

function PhaseLine({ job }: { job: JobView }): JSX.Element {
  return (
    <Card title="Phases">
      <ol class="steps">
        {job.phases.map((span, index) => {
          const isLast = index === job.phases.length - 1;
          const tone = span.phase === "FAILED" || span.phase === "CANCELLED" ? "failed" : isLast && !isEnded(job) ? "now" : "done";
          const end = span.left_at ? Date.parse(span.left_at) : now.value;
          return (
            <li class={tone} key={`${span.phase}${span.entered_at}`}>
              <strong class="small">{span.phase}</strong>
              <div class="quiet small numbers">{clock(span.entered_at)}</div>
              {!(isLast && isEnded(job)) && (
                <div class="quiet small numbers">{duration((end - Date.parse(span.entered_at)) / 1000)}</div>
              )}
            </li>
          );
        })}
      </ol>
    </Card>
  );
}

function Simulated({ pods, id }: { pods: readonly Pod[]; id: string }): JSX.Element | null {
  const systems = pods.filter((pod) => SIMULATED_STEP in pod.readings);
  const [first] = systems;
  if (!first) return null;
  const of = (name: string): number => first.readings[name] ?? 0;
  const total = systems.reduce((sum, pod) => sum + (pod.readings[SIMULATED_RATE] ?? 0), 0);
  const wall = of(WALL_STEP);
  const simulated = of(SIMULATED_STEP);
  return (
    <Card
      title="Simulated wafer time beside wall time"
      actions={
        <Link class="button" href={`/jobs/${id}/wafer`}>
          Look into the wafer
        </Link>
      }
    >
      <Facts
        of={[
          ["Simulated step", duration(simulated)],
          ["Wall step here", wall ? duration(wall) : "none yet"],
          ["Wall / simulated", wall && simulated ? `${figure(wall / simulated)} x` : "-"],
          ["Simulated samples/s", figure(total)],
          ["Simulated utilization", percent(of(SIMULATED_USE))],
          ["Weights in, each system", rate(of(WEIGHTS_IN))],
          ["Gradients out, each system", rate(of(GRADIENTS_OUT))],
        ]}
      />
    </Card>
  );
}

const TRACED = "SdkTraced";

function FabricCard({ job }: { job: JobView }): JSX.Element {
  if (job.events.some((event) => event.reason === TRACED)) return <KeptTrace id={job.id} />;
  return (
    <Card title="Trace of the fabric">
      <Empty>None was asked for: run the program with WSC_FABRIC_TRACE=1, or compile it with --fabric-trace.</Empty>
    </Card>
  );
}

function KeptTrace({ id }: { id: string }): JSX.Element {
  const { value, problem } = useLive<Schemas["FabricTrace"]>(`/jobs/${id}/fabric`, { topics: ["job"], id });
  const last = value?.blocks[value.blocks.length - 1];
  return (
    <Card
      title="Trace of the fabric"
      actions={
        value && (
          <Link class="button" href={`/jobs/${id}/fabric`}>
            See wavelets move
          </Link>
        )
      }
    >
      {!value && <Empty>{problem ? problem.message : "Loading"}</Empty>}
      {value && last && (
        <Facts
          of={[
            ["Events", value.blocks.reduce((sum, block) => sum + block.num_events, 0).toLocaleString()],
            ["Simulated cycles", `${(value.blocks[0]?.first_cycle ?? 0).toLocaleString()} to ${last.last_cycle.toLocaleString()}`],
            ["Size", size(value.num_bytes)],
          ]}
        />
      )}
    </Card>
  );
}

function Pods({ job, shown, onShow }: { job: JobView; shown: string; onShow: (pod: string) => void }): JSX.Element {
  return (
    <Card title="Pods">
      {job.pods.length === 0 && <Empty>No pod has been started.</Empty>}
      {job.pods.length > 0 && (
        <Table>
          <thead>
            <tr>
              <th>Pod</th>
              <th>Role</th>
              <th>Node</th>
              <th>State</th>
              <th class="num">Step</th>
              <th class="num">Memory</th>
              <th>Log</th>
            </tr>
          </thead>
          <tbody>
            {job.pods.map((pod) => (
              <tr key={pod.name}>
                <td>{pod.name.replace(`${job.id}-`, "")}</td>
                <td class="note">{pod.role}</td>
                <td>{pod.node}</td>
                <td>
                  <span class={`tone-${podTone(pod)}`}>{pod.phase}</span>
                  {pod.exit_code !== null && pod.exit_code !== 0 && <span class="quiet small"> exit code {pod.exit_code}</span>}
                  {pod.message && <div class="quiet small">{pod.message}</div>}
                </td>
                <td class="num">{pod.step || ""}</td>
                <td class="num">{pod.resident_bytes ? size(pod.resident_bytes) : ""}</td>
                <td>
                  <a
                    href="#logs"
                    aria-label={`Log of ${pod.name}`}
                    aria-current={shown === pod.name ? "true" : undefined}
                    onClick={(event) => {
                      event.preventDefault();
                      onShow(pod.name);
                      document.getElementById("logs")?.scrollIntoView({ behavior: "smooth" });
                    }}
                  >
                    log
                  </a>
                </td>
              </tr>
            ))}
          </tbody>
        </Table>
      )}
    </Card>
  );
}

const podTone = (pod: Pod): string =>
  ({ Running: "good", Succeeded: "good", Failed: "bad", Pending: "info" })[pod.phase] ?? "quiet";

const EVENTS_SHOWN = 100;

function Events({ events }: { events: JobView["events"] }): JSX.Element {
  const [most, setMost] = useState(EVENTS_SHOWN);
  const hidden = Math.max(events.length - most, 0);
  return (
    <Card title="Events" actions={<span class="quiet small numbers">{events.length}</span>}>
      <Table>
        <thead>
          <tr>
            <th class="fit">Time</th>
            <th class="fit">Reason</th>
            <th>Message</th>
          </tr>
        </thead>
        <tbody>
          {events.slice(hidden).reverse().map((event, index) => (
            <tr key={`${event.at}${index}`}>
              <td class="numbers">{clock(event.at)}</td>
              <td class={event.is_warning ? "tone-warn" : ""}>{event.reason}</td>
              <td class="wide">{eventText(event)}</td>
            </tr>
          ))}
        </tbody>
      </Table>
      {hidden > 0 && <button onClick={() => setMost(most + EVENTS_SHOWN)}>Show {Math.min(hidden, EVENTS_SHOWN)} older</button>}
    </Card>
  );
}

function Configuration({ id }: { id: string }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const { value, problem } = useLive<Record<string, unknown>>(isOpen ? `/jobs/${id}/configuration` : null, { topics: [] });
  return (
    <Card title="Configuration" actions={<button onClick={() => setOpen(!isOpen)}>{isOpen ? "Hide" : "Show"}</button>}>
      {isOpen && <Trouble problem={problem} />}
      {isOpen && value && <pre class="log">{JSON.stringify(value, null, 2)}</pre>}
    </Card>
  );
}
