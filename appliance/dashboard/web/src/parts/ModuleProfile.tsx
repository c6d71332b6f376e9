/** Where the simulated time of a step goes, module by module. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { duration, percent } from "../format";
import { useLive } from "../live";
import { Card, Empty } from "./basics";
import { sumByModule, type TraceEvent } from "./modules";
import { SessionChoice } from "./SessionChoice";
import { Treemap } from "./Treemap";
import { Table } from "./Table";

/** A Chrome trace of one simulated step; times in microseconds. */
interface Profile {
  traceEvents: TraceEvent[];
}

const SHOWN = 10;

export function ModuleProfile({ id, isLoaded, isEnded }: { id: string; isLoaded: boolean; isEnded: boolean }): JSX.Element {
  const [session, setSession] = useState("");
  const path = `/jobs/${id}/profile${session ? `?session=${session}` : ""}`;
  const { value, problem } = useLive<Profile>(isLoaded ? path : null, { topics: ["job"], id });
  const [isWhole, setWhole] = useState(false);
  const modules = useMemo(() => sumByModule(value?.traceEvents ?? []), [value]);
  const total = modules.reduce((sum, each) => sum + each.seconds, 0);
  return (
    <Card
      title="Simulated time by module"
      actions={
        <>
          {isLoaded && <SessionChoice id={id} name="Profile of" chosen={session} onChoose={setSession} />}
          {modules.length > 0 && (
            <a class="button" href={`/api/v1${path}`} download={`${id}${session && `-session-${session}`}.trace.json`}>
              Chrome trace
            </a>
          )}
        </>
      }
    >
      {modules.length === 0 && (
        <Empty>{problem && problem.status !== 404 ? problem.message : isEnded ? "The job ended before its program was loaded." : "Shown once the program is loaded."}</Empty>
      )}
      {modules.length > 0 && (
        <>
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
          {modules.length > SHOWN && <button class="below" onClick={() => setWhole(!isWhole)}>{isWhole ? "Show the longest" : `Show all ${modules.length}`}</button>}
        </>
      )}
    </Card>
  );
}
