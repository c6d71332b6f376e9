/** Runs: what each was given and what came of it, and the curves of those that are chosen. */

import type { JSX } from "preact";
import { Link } from "wouter-preact";
import type { Schemas } from "../api";
import { clock, duration, figure } from "../format";
import { now, useLive } from "../live";
import { isEnded } from "../parts/actions";
import { type Address, useAddress } from "../parts/address";
import { Card, None, Phase, Trouble } from "../parts/basics";
import { RunCurves } from "../parts/RunCurves";
import { distinguishing, MAX_COLUMNS, MAX_COMPARED, outputsOf, parametersOf, runsCsv, toggled } from "../parts/runTable";
import { saveBlob } from "../parts/save";
import { Table } from "../parts/Table";

type Run = Schemas["Run"];
type RunPage = Schemas["RunPage"];

const MOST = 200;
const SCOPES: Record<string, string> = { all: "&all_states=true", mine: "&all_states=true&mine=true", unfinished: "" };

export function Runs(): JSX.Element {
  const address = useAddress();
  const scope = address.get("runs") in SCOPES ? address.get("runs") : "all";
  const [text, array] = [address.get("text"), address.get("array")];
  const wanted = `${text && `&text=${encodeURIComponent(text)}`}${array && `&label=${encodeURIComponent(`array=${array}`)}`}`;
  const runs = useLive<RunPage>(`/runs?limit=${MOST}&with_total=true${SCOPES[scope]}${wanted}`, { topics: ["job"], everySeconds: 15 });
  const items = runs.value?.items ?? [];
  const chosen = address.get("compare").split(",").filter(Boolean);
  const compared = chosen.flatMap((id) => items.filter((run) => run.id === id));
  return (
    <>
      <h1>Runs</h1>
      <Trouble problem={runs.problem} />
      {compared.length > 0 && <RunCurves title="Compared" lines={compared.map(lineOf)} empty="None of these has computed a step." />}
      <Card
        title={array ? `Runs of ${array}` : "Scripts and their jobs"}
        actions={
          <>
            {array && (
              <button onClick={() => address.set({ array: "", compare: "" })}>All runs</button>
            )}
            <select value={scope} aria-label="Which runs" onChange={(event) => address.set({ runs: event.currentTarget.value === "all" ? "" : event.currentTarget.value })}>
              <option value="all">all</option>
              <option value="mine">mine</option>
              <option value="unfinished">unfinished</option>
            </select>
            <input type="search" placeholder="User, label, id" aria-label="Search runs" value={text} onInput={(event) => address.set({ text: event.currentTarget.value })} />
            <button disabled={items.length === 0} onClick={() => saveBlob(new Blob([runsCsv(items)], { type: "text/csv" }), "runs.csv")}>
              Save as CSV
            </button>
            <span class="quiet small numbers count">{count(runs.value)}</span>
          </>
        }
      >
        {items.length === 0 ? (
          <None of={runs}>{text || array ? "No run in this list is like that." : "Nothing has run yet."}</None>
        ) : (
          <RunTable runs={items} chosen={chosen} address={address} />
        )}
      </Card>
    </>
  );
}

const count = (page: RunPage | undefined): string => {
  if (!page) return "";
  const total = (page.total ?? page.items.length).toLocaleString("en-US");
  return page.next ? `the newest ${MOST} of ${total} runs` : `${total} runs`;
};

export const runTitle = (run: Run): string => run.name || run.id;

const lineOf = (run: Run): { name: string; jobs: { id: string; isEnded: boolean }[] } => ({
  name: runTitle(run),
  jobs: run.jobs.filter((job) => job.type === "execute").map((job) => ({ id: job.id, isEnded: isEnded(job) })),
});

function RunTable({ runs, chosen, address }: { runs: readonly Run[]; chosen: readonly string[]; address: Address }): JSX.Element {
  const parameters = distinguishing(runs).slice(0, MAX_COLUMNS);
  const outputs = outputsOf(runs).slice(0, MAX_COLUMNS);
  return (
    <Table label="Runs">
      <thead>
        <tr>
          <th>Run</th>
          <th class="fit">Compare</th>
          <th class="fit">Phase</th>
          <th>Script</th>
          {parameters.map((name) => (
            <th key={name}>{name}</th>
          ))}
          <th class="num">Step</th>
          {outputs.map((name) => (
            <th class="num" key={name}>
              Last {name}
            </th>
          ))}
          <th>Ran for</th>
          <th>Submitted</th>
          <th>User</th>
        </tr>
      </thead>
      <tbody>
        {runs.map((run) => (
          <Row key={run.id} run={run} parameters={parameters} outputs={outputs} isChosen={chosen.includes(run.id)} onChoose={() => address.set({ compare: toggled(chosen, run.id).join(",") })} />
        ))}
      </tbody>
    </Table>
  );
}

function Row({ run, parameters, outputs, isChosen, onChoose }: { run: Run; parameters: readonly string[]; outputs: readonly string[]; isChosen: boolean; onChoose: () => void }): JSX.Element {
  const given = parametersOf(run);
  return (
    <tr>
      <td>
        <Link class="job" href={`/runs/${run.id}`} title={run.id}>
          {run.name ? <strong>{run.name}</strong> : <span class="id">{run.id}</span>}
        </Link>
      </td>
      <td>
        <input type="checkbox" checked={isChosen} aria-label={`Compare ${runTitle(run)}`} title={`Up to ${MAX_COMPARED} runs are compared`} onChange={onChoose} />
      </td>
      <td>
        <Phase phase={run.phase} />
      </td>
      <td>{run.script || <span class="quiet">{run.kind}</span>}</td>
      {parameters.map((name) => (
        <td key={name}>{given[name] ?? "-"}</td>
      ))}
      <td class="num">{stepText(run)}</td>
      {outputs.map((name) => (
        <td class="num" key={name}>
          {valueText(run.last_values[name])}
        </td>
      ))}
      <td class="numbers">{ranFor(run)}</td>
      <td class="numbers">{clock(run.created_at)}</td>
      <td>{run.user || run.uid}</td>
    </tr>
  );
}

const valueText = (value: number | undefined): string => (value === undefined ? "-" : figure(value));

export const stepText = (run: Run): string => {
  if (!run.step) return "-";
  return run.num_steps ? `${run.step.toLocaleString("en-US")} of ${run.num_steps.toLocaleString("en-US")}` : run.step.toLocaleString("en-US");
};

export function ranFor(run: Run): string {
  if (!run.started_at) return "not started";
  const end = run.ended_at ? Date.parse(run.ended_at) : now.value;
  return duration(Math.max(end - Date.parse(run.started_at), 0) / 1000);
}
