/** An SDK job's trace of the fabric: wavelets, routes, what waits, what each PE executes. */

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { getBytes, type Problem } from "../api";
import { Canvas } from "../fabric/Canvas";
import { LinesCard } from "../fabric/LinesCard";
import { chromeTrace } from "../fabric/perfetto";
import { PeCard } from "../fabric/PeCard";
import { Player } from "../fabric/Player";
import { colorsIn, Fabric as State, type Measure, usedPorts } from "../fabric/state";
import { type Index, loadTrace, type Trace } from "../fabric/trace";
import { count } from "../format";
import { useLive } from "../live";
import { Card, Empty, Facts, Trouble } from "../parts/basics";
import { saveBlob } from "../parts/save";

/** Events that a page keeps, the latest: 24 bytes each. */
const MOST_EVENTS = 4_000_000;

export function Fabric({ id }: { id: string }): JSX.Element {
  const { value: index, problem } = useLive<Index>(`/jobs/${id}/fabric`, { topics: ["job"], id });
  const { trace, share, failure } = useTrace(id, index);
  return (
    <>
      <div class="title">
        <h1>Fabric</h1>
        <Link href={`/jobs/${id}`}>{id}</Link>
        <span class="quiet">Every cycle on this page is simulated.</span>
        {trace && (
          <span class="push controls">
            <button onClick={() => saveBlob(new Blob([JSON.stringify(chromeTrace(trace, id))], { type: "application/json" }), `${id}.fabric.json`)}>Perfetto</button>
            <a class="button" href={`/api/v1/jobs/${id}/fabric/file`} download={`${id}.trace`}>
              Trace
            </a>
          </span>
        )}
      </div>
      {problem && (problem.status === 404 ? <Missing words={problem.message} hint={problem.hint} /> : <Trouble problem={problem} />)}
      <Trouble problem={failure} />
      {index && !trace && !failure && (
        <Empty>
          Loading the trace: {Math.round(100 * share)} % of {count(index.num_bytes)}B
        </Empty>
      )}
      {trace && (trace.events.length === 0 ? <Empty>Nothing happened on the fabric.</Empty> : <View key={index?.version} trace={trace} />)}
    </>
  );
}

const Missing = ({ words, hint }: { words: string; hint: string }): JSX.Element => (
  <Card>
    <Empty>{words}</Empty>
    <p class="empty">{hint}</p>
  </Card>
);

interface Loaded {
  trace?: Trace;
  share: number;
  failure?: Problem | undefined;
}

function useTrace(id: string, index: Index | undefined): Loaded {
  const [loaded, setLoaded] = useState<Loaded>({ share: 0 });
  const version = index?.version;
  useEffect(() => {
    if (!index) return;
    const abort = new AbortController();
    const fetch = (path: string): Promise<Uint8Array> => getBytes(`/jobs/${id}/fabric/${path}?version=${index.version}`, abort.signal);
    setLoaded({ share: 0 });
    loadTrace(index, fetch, MOST_EVENTS, (share) => setLoaded({ share })).then(
      (trace) => !abort.signal.aborted && setLoaded({ trace, share: 1 }),
      (failure: Problem) => !abort.signal.aborted && setLoaded({ share: 0, failure }),
    );
    return () => abort.abort();
  }, [id, version]);
  return loaded;
}

function View({ trace }: { trace: Trace }): JSX.Element {
  const first = trace.events.cycle[0] ?? 0;
  const last = trace.events.cycle[trace.events.length - 1] ?? first;
  const state = useMemo(() => new State(trace), [trace]);
  const used = useMemo(() => usedPorts(trace), [trace]);
  const colors = useMemo(() => colorsIn(trace), [trace]);
  const [time, setTime] = useState(first);
  const [selected, setSelected] = useState(-1);
  const [color, setColor] = useState(-1);
  const [measure, setMeasure] = useState<Measure | "none">("waiting");
  const [span, setSpan] = useState(100);
  return (
    <>
      <Summary trace={trace} first={first} last={last} />
      <Card
        title="Grid of PEs"
        actions={
          <>
            <label class="check">
              Color
              <select value={String(color)} onChange={(event) => setColor(Number(event.currentTarget.value))}>
                <option value="-1">all</option>
                {colors.map((each) => (
                  <option key={each} value={String(each)}>
                    {each}
                  </option>
                ))}
              </select>
            </label>
            <label class="check">
              Heat
              <select value={measure} onChange={(event) => setMeasure(event.currentTarget.value as Measure | "none")}>
                <option value="none">none</option>
                <option value="waiting">cycles waited (stalls)</option>
                <option value="occupancy">fullest buffer or queue</option>
                <option value="traffic">wavelets routed</option>
                <option value="work">elements and tasks</option>
              </select>
            </label>
            <label class="check">
              over
              <select value={String(span)} onChange={(event) => setSpan(Number(event.currentTarget.value))}>
                <option value="0">the whole trace</option>
                <option value="10">the last 10 cycles</option>
                <option value="100">the last 100 cycles</option>
                <option value="1000">the last 1,000 cycles</option>
              </select>
            </label>
          </>
        }
      >
        <Player first={first} last={last} time={time} onChange={setTime} />
        <Canvas trace={trace} state={state} used={used} colors={colors} time={time} color={color} measure={measure} span={span} selected={selected} onSelect={setSelected} />
        <Place trace={trace} selected={selected} onSelect={setSelected} />
      </Card>
      {selected >= 0 && <PeCard trace={trace} state={state} pe={selected} time={time} first={first} last={last} onTime={setTime} />}
      <LinesCard trace={trace} selected={selected} />
      <Stuck trace={trace} onSelect={setSelected} />
      <p class="quiet small">
        Without a browser: <code>cs_trace svg FILE --cycle {Math.floor(time)}</code>
      </p>
    </>
  );
}

function Summary({ trace, first, last }: { trace: Trace; first: number; last: number }): JSX.Element {
  const hidden = trace.num_events - trace.events.length;
  return (
    <Card>
      <Facts
        of={[
          ["PEs", `${trace.width} x ${trace.height} (${trace.architecture})`],
          ["Cycles", `${first.toLocaleString()} to ${last.toLocaleString()}`],
          ["Events", trace.events.length.toLocaleString()],
          ["Earlier events, not kept", trace.num_lost.toLocaleString()],
          ["Earlier events, only in the file", hidden.toLocaleString()],
          ["End", trace.end ? "failed" : "stopped"],
        ]}
      />
      {trace.end && <pre class="log fit">{trace.end}</pre>}
    </Card>
  );
}

function Place({ trace, selected, onSelect }: { trace: Trace; selected: number; onSelect: (pe: number) => void }): JSX.Element {
  const x = selected < 0 ? "" : String(selected % trace.width);
  const y = selected < 0 ? "" : String(Math.floor(selected / trace.width));
  const choose = (column: string, row: string): void => {
    const [right, down] = [Math.trunc(Number(column || 0)), Math.trunc(Number(row || 0))];
    if (right >= 0 && down >= 0 && right < trace.width && down < trace.height) onSelect(down * trace.width + right);
  };
  return (
    <div class="controls">
      <label class="field">
        Column
        <input type="number" min={0} max={trace.width - 1} value={x} onInput={(event) => choose(event.currentTarget.value, y)} />
      </label>
      <label class="field">
        Row
        <input type="number" min={0} max={trace.height - 1} value={y} onInput={(event) => choose(x, event.currentTarget.value)} />
      </label>
      <span class="quiet small">Choose a PE here, or by a click or the arrow keys on the grid.</span>
    </div>
  );
}

function Stuck({ trace, onSelect }: { trace: Trace; onSelect: (pe: number) => void }): JSX.Element | null {
  if (trace.waiting.length === 0) return null;
  return (
    <Card title="What could not go on">
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>PE</th>
              <th>Waits</th>
              <th>Source</th>
              <th class="num">Since cycle</th>
            </tr>
          </thead>
          <tbody>
            {trace.waiting.slice(0, 200).map((each, number) => (
              <tr key={number}>
                <td>
                  <button onClick={() => onSelect(each.y * trace.width + each.x)}>
                    ({each.x}, {each.y})
                  </button>
                </td>
                <td>{each.what}</td>
                <td>
                  <code>{each.where}</code>
                </td>
                <td class="num">{each.since ? each.since.toLocaleString() : ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}
