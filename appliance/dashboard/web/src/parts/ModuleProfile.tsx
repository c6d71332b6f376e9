/** Where the simulated time of a step goes, module by module. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { duration, percent } from "../format";
import { useLive } from "../live";
import { Card, Empty } from "./basics";
import { sumByModule, type TraceEvent } from "./modules";
import { Treemap } from "./Treemap";
import { Table } from "./Table";

/** A Chrome trace of one simulated step; times in microseconds. */
interface Profile {
  traceEvents: TraceEvent[];
}

const SHOWN = 10;

/** `hasSessions`: whether the job has run several sessions, so that it has to be said whose profile this is. */
export function ModuleProfile({ id, isLoaded, isEnded, hasSessions }: { id: string; isLoaded: boolean; isEnded: boolean; hasSessions: boolean }): JSX.Element {
  const { value, problem } = useLive<Profile>(isLoaded ? `/jobs/${id}/profile` : null, { topics: ["job"], id });
  const [isWhole, setWhole] = useState(false);
  const modules = useMemo(() => sumByModule(value?.traceEvents ?? []), [value]);
  const total = modules.reduce((sum, each) => sum + each.seconds, 0);
  return (
    <Card
      title="Simulated time by module"
      actions={
        modules.length > 0 && (
          <a class="button" href={`/api/v1/jobs/${id}/profile`} download={`${id}.trace.json`}>
            Chrome trace
          </a>
        )
      }
    >
      {modules.length === 0 && (
        <Empty>{problem && problem.status !== 404 ? problem.message : isEnded ? "The job ended before its program was loaded." : "Shown once the program is loaded."}</Empty>
      )}
      {modules.length > 0 && (
        <>
          {hasSessions && <p class="small quiet">One step of the program that the job loaded last; the wafer pages of its sessions, above, show the others.</p>}
          <Treemap modules={modules} />
          <Table>
            <thead>
              <tr>
                <th>Module</th>
                <th>Pass</th>
                <th class="num">Simulated time</th>
                <th class="num">Share</th>
              </tr>
            </thead>
            <tbody>
              {modules.slice(0, isWhole ? modules.length : SHOWN).map((each) => (
                <tr key={`${each.module}${each.direction}`}>
                  <td>{each.module}</td>
                  <td>{each.direction}</td>
                  <td class="num">{duration(each.seconds)}</td>
                  <td class="num">{percent(each.seconds / total)}</td>
                </tr>
              ))}
            </tbody>
          </Table>
          {modules.length > SHOWN && <button onClick={() => setWhole(!isWhole)}>{isWhole ? "Show the longest" : `Show all ${modules.length}`}</button>}
        </>
      )}
    </Card>
  );
}
