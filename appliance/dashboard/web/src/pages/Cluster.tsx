/** What there is, who uses it, and what flows. */

import type { JSX } from "preact";
import { Link } from "wouter-preact";
import type { Schemas } from "../api";
import { duration, percent, size } from "../format";
import { type Live, useLive } from "../live";
import { Card, Facts, None, Phase, Share, Trouble } from "../parts/basics";
import { Chart } from "../parts/Chart";
import type { Flow } from "../parts/layout";
import { type JobLabels, JobName } from "../parts/JobName";
import { Topology } from "../parts/Topology";
import { Table } from "../parts/Table";

type ClusterView = Schemas["ClusterView"];
type JobPage = Schemas["JobPage"];
type QueueView = Schemas["Queue"];
type History = Schemas["Utilization"];
type FlowView = Schemas["Flow"];

export function Cluster(): JSX.Element {
  const cluster = useLive<ClusterView>("/cluster", { topics: ["system", "job"], everySeconds: 10 });
  const running = useLive<JobPage>("/jobs?phase=RUNNING&type=execute&limit=50", { topics: ["job", "queue"], everySeconds: 10 });
  const waiting = useLive<QueueView>("/queue?limit=1", { topics: ["queue"] });
  const view = cluster.value;
  const labels: JobLabels = new Map(running.value?.items.map((job) => [job.id, job.labels]));
  const busy = view?.systems.filter((each) => each.job !== null).length ?? 0;
  return (
    <>
      <h1>Cluster</h1>
      <Trouble problem={cluster.problem} />
      {view && (
        <Card>
          <Facts
            of={[
              ["Systems in use", `${busy} of ${view.systems.length}`],
              ["Running jobs", running.value ? String(running.value.items.length) : "-"],
              ["Waiting jobs", <Link href="/queue">{waiting.value?.total ?? "-"}</Link>],
              ["Nodes", String(view.nodes.length)],
            ]}
          />
        </Card>
      )}
      {view && <FlowCard systems={view.systems.map((each) => each.name)} />}
      <Usage />
      {view && (
        <div class="grid tables">
          <Systems systems={view.systems} labels={labels} />
          <Nodes nodes={view.nodes} />
          {view.node_groups.length > 0 && <NodeGroups groups={view.node_groups} labels={labels} />}
        </div>
      )}
      <RunningJobs running={running} />
    </>
  );
}

function FlowCard({ systems }: { systems: string[] }): JSX.Element {
  const { value } = useLive<FlowView>("/cluster/flow", { topics: ["progress", "job"], everySeconds: 10 });
  const shown: Flow = {
    systems,
    weights: value?.simulated_weight_bytes_per_second ?? null,
    gradients: value?.simulated_gradient_bytes_per_second ?? null,
    samples: value?.simulated_samples_per_second ?? null,
  };
  return (
    <Card title="What flows now">
      <Topology flow={shown} />
      <p class="quiet small">Simulated rates: what the running jobs, all together, would move on real systems.</p>
    </Card>
  );
}

function Usage(): JSX.Element {
  const history = useLive<History>("/cluster/utilization?hours=6", { topics: ["job"], everySeconds: 30 });
  const { value } = history;
  return (
    <Card title="Systems in use, last 6 hours">
      {value && value.at.length > 1 ? (
        <Chart
          title="Share of systems in use"
          x={value.at.map((each) => Date.parse(each) / 1000)}
          xLabel="time"
          isTime
          range={[0, 1]}
          format={percent}
          series={[{ name: "in use", values: value.share_in_use }]}
        />
      ) : (
        <None of={history}>Nothing has run yet.</None>
      )}
    </Card>
  );
}

type System = ClusterView["systems"][number];

const systemState = (each: System): string =>
  !each.is_healthy ? "unhealthy" : each.state !== "up" ? each.state : each.job ? "in use" : "free";

const systemTone = (each: System): string =>
  !each.is_healthy ? "bad" : each.state !== "up" ? "warn" : each.job ? "info" : "good";

function Systems({ systems, labels }: { systems: ClusterView["systems"]; labels: JobLabels }): JSX.Element {
  return (
    <Card title="Systems">
      <Table>
        <thead>
          <tr>
            <th>Name</th>
            <th>State</th>
            <th>Job</th>
            <th>Notes</th>
          </tr>
        </thead>
        <tbody>
          {systems.map((each) => (
            <tr key={each.name}>
              <td>{each.name}</td>
              <td>
                <span class={`badge tone-${systemTone(each)}`}>{systemState(each)}</span>
              </td>
              <td>{each.job ? <JobName id={each.job} labels={labels.get(each.job)} /> : <span class="quiet">none</span>}</td>
              <td class="quiet">{each.notes}</td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Card>
  );
}

function Nodes({ nodes }: { nodes: ClusterView["nodes"] }): JSX.Element {
  return (
    <Card title="Nodes">
      <Table>
        <thead>
          <tr>
            <th>Name</th>
            <th>Roles</th>
            <th>CPU</th>
            <th>Memory</th>
          </tr>
        </thead>
        <tbody>
          {nodes.map((each) => (
            <tr key={each.name}>
              <td>{each.name}</td>
              <td class="wide">{each.roles.join(", ")}</td>
              <td>
                <Share share={each.cpu_percent / 100} label={`${percent(each.cpu_percent / 100)} of ${each.num_cores} cores`} />
                <span class="quiet small numbers">
                  {percent(each.cpu_percent / 100)} of {each.num_cores} cores
                </span>
              </td>
              <td>
                <Share share={each.memory_percent / 100} label={`${percent(each.memory_percent / 100)}`} />
                <span class="quiet small numbers">
                  {percent(each.memory_percent / 100)} of {size(each.memory_bytes)}
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Card>
  );
}

function NodeGroups({ groups, labels }: { groups: ClusterView["node_groups"]; labels: JobLabels }): JSX.Element {
  return (
    <Card title="MemoryX node groups">
      <Table>
        <thead>
          <tr>
            <th>Name</th>
            <th>Kind</th>
            <th class="num">Nodes</th>
            <th class="num">Memory</th>
            <th>Job</th>
          </tr>
        </thead>
        <tbody>
          {groups.map((each) => (
            <tr key={each.name}>
              <td>{each.name}</td>
              <td>{each.kind}</td>
              <td class="num">{each.num_nodes}</td>
              <td class="num">{size(each.memory_bytes)}</td>
              <td>{each.job ? <JobName id={each.job} labels={labels.get(each.job)} /> : <span class="quiet">none</span>}</td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Card>
  );
}

function RunningJobs({ running }: { running: Live<JobPage> }): JSX.Element {
  const page = running.value;
  return (
    <Card title="Running jobs">
      {page && page.items.length > 0 ? (
        <Table>
          <thead>
            <tr>
              <th>Job</th>
              <th>User</th>
              <th>Systems</th>
              <th>Phase</th>
              <th class="num">Running for</th>
            </tr>
          </thead>
          <tbody>
            {page.items.map((job) => (
              <tr key={job.id}>
                <td>
                  <JobName id={job.id} labels={job.labels} />
                </td>
                <td>{job.user}</td>
                <td>{job.systems.join(", ")}</td>
                <td>
                  <Phase phase={job.phase} />
                </td>
                <td class="num">{job.started_at ? duration((Date.now() - Date.parse(job.started_at)) / 1000) : ""}</td>
              </tr>
            ))}
          </tbody>
        </Table>
      ) : (
        <None of={running}>No job runs.</None>
      )}
    </Card>
  );
}
