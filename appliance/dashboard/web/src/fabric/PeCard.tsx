/** One PE: what it executes, its tasks on a time line, its memory by symbol. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Card, Empty, Facts, Share, seriesColor } from "../parts/basics";
import { size } from "../format";
import { type Bar, barsOf, type Fabric, laneName } from "./state";
import { bytesOf, typeOf, valuesOf } from "./memory";
import { lineOf, MAIN_THREAD, type MemorySymbol, NO_CODE, placeOf, START, type Trace } from "./trace";

const CAPACITY = 48 * 1024;
const MOST_BARS = 1500;
const WIDTH = 1000;
const ROW = 24;
const SPANS = [50, 200, 1000, 10_000, 100_000];

interface Props {
  trace: Trace;
  state: Fabric;
  pe: number;
  time: number;
  first: number;
  last: number;
  onTime: (time: number) => void;
}

export function PeCard(props: Props): JSX.Element {
  const { trace, state, pe, time } = props;
  const code = trace.classes[trace.code[pe] ?? NO_CODE];
  const place = `(${pe % trace.width}, ${Math.floor(pe / trace.width)})`;
  state.goTo(Math.floor(time));
  const taskEvent = state.task[pe] ?? -1;
  const operationEvent = state.operation[pe] ?? -1;
  const task = taskEvent < 0 ? undefined : lineOf(trace, pe, trace.events.a[taskEvent] ?? 0);
  const operation = operationEvent < 0 ? undefined : lineOf(trace, pe, trace.events.a[operationEvent] ?? 0);
  const line = operation ?? task;
  return (
    <Card title={`PE ${place}`}>
      <Facts
        of={[
          ["Code", code?.file ?? "no program"],
          ["Task", taskEvent < 0 ? "none runs" : (task?.[0] ?? "unknown")],
          ["Wavelets that wait here", String(state.waiting[pe] ?? 0)],
          ["Memory", code ? `${size(code.memory_bytes)} of ${size(CAPACITY)}` : "-"],
        ]}
      />
      <p class="source">
        <span class="quiet small">
          {line ? `${nameOf(trace, operationEvent)} executes ${placeOf(trace, line) || line[0]}` : "executes nothing"}
        </span>
        {line?.[4] && <code>{line[4]}</code>}
      </p>
      <TimeLine {...props} />
      {code && <MemoryTable trace={trace} pe={pe} symbols={code.symbols} />}
    </Card>
  );
}

/** Who executes an operation; without one it is the task. */
function nameOf(trace: Trace, operation: number): string {
  if (operation < 0) return "the task";
  const isThread = trace.events.kind[operation] === START && trace.events.ports[operation] !== MAIN_THREAD;
  return isThread ? `microthread ${trace.events.ports[operation]}` : "the task";
}

function TimeLine({ trace, pe, time, first, last, onTime }: Props): JSX.Element {
  const [span, setSpan] = useState(1000);
  // The window moves on when the cycle leaves its middle half, so that it holds still while one plays.
  const step = Math.max(1, Math.floor(span / 4));
  const from = Math.max(first, Math.floor(time / step) * step - Math.floor(span / 2));
  const to = Math.min(from + span, Math.max(last, from + 1));
  const bars = useMemo(() => barsOf(trace, pe, from, to, MOST_BARS), [trace, pe, from, to]);
  const lanes = [...new Set([0, 1, ...bars.map((bar) => bar.lane)])].sort((one, other) => one - other);
  const height = lanes.length * ROW + 22;
  const xOf = (cycle: number): number => ((Math.min(Math.max(cycle, from), to) - from) / (to - from)) * WIDTH;
  return (
    <>
      <div class="title">
        <h3>Tasks and operations</h3>
        <label class="check push">
          <select aria-label="Length of the time line" value={String(span)} onChange={(event) => setSpan(Number(event.currentTarget.value))}>
            {SPANS.map((each) => (
              <option key={each} value={String(each)}>
                {each.toLocaleString()} cycles
              </option>
            ))}
          </select>
        </label>
      </div>
      {bars.length === 0 && <Empty>Nothing ran here in these cycles.</Empty>}
      <div class="lanes">
        <div class="names small quiet" aria-hidden="true">
          {lanes.map((lane) => (
            <div key={lane} style={{ height: `${ROW}px` }}>
              {laneName(lane)}
            </div>
          ))}
        </div>
        <svg viewBox={`0 0 ${WIDTH} ${height}`} preserveAspectRatio="none" width="100%" height={height} role="img" aria-label={`${bars.length} tasks and operations from cycle ${from} to ${to}`}>
          {lanes.map((lane, row) => (
            <rect key={`lane${lane}`} x={0} y={row * ROW + 1} width={WIDTH} height={ROW - 2} fill="var(--mark)" />
          ))}
          {bars.map((bar) => (
            <BarOf key={bar.event} trace={trace} pe={pe} bar={bar} row={lanes.indexOf(bar.lane)} x={xOf(bar.from)} width={Math.max(xOf(bar.to) - xOf(bar.from), 1)} onClick={() => onTime(Math.max(bar.from, first))} />
          ))}
          <line x1={xOf(time)} x2={xOf(time)} y1={0} y2={height - 20} stroke="var(--bad)" stroke-width={2} />
        </svg>
      </div>
      <div class="ends small quiet numbers">
        <span>cycle {from.toLocaleString()}</span>
        <span>{to.toLocaleString()}</span>
      </div>
    </>
  );
}

function BarOf(props: { trace: Trace; pe: number; bar: Bar; row: number; x: number; width: number; onClick: () => void }): JSX.Element {
  const { trace, pe, bar, row, x, width } = props;
  const counter = trace.events.a[bar.event] ?? 0;
  const line = lineOf(trace, pe, counter);
  const words = `${line?.[0] ?? "?"} ${placeOf(trace, line)} ${line?.[4] ?? ""}: cycle ${bar.from} to ${bar.to}`;
  return (
    <rect x={x} y={row * ROW + 3} width={width} height={ROW - 6} fill={seriesColor((counter + 3 * bar.lane) % 7)} style={{ cursor: "pointer" }} onClick={props.onClick}>
      <title>{words}</title>
    </rect>
  );
}

const SYMBOLS_SHOWN = 12;

function MemoryTable({ trace, pe, symbols }: { trace: Trace; pe: number; symbols: MemorySymbol[] }): JSX.Element {
  const [all, setAll] = useState(false);
  const largest = useMemo(() => [...symbols].sort((one, other) => other.bytes - one.bytes), [symbols]);
  const shown = all ? symbols : largest.slice(0, SYMBOLS_SHOWN);
  return (
    <>
      <h3>Memory by symbol</h3>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>Symbol</th>
              <th>Type</th>
              <th>Values at the end</th>
              <th class="num">Address</th>
              <th class="num">Bytes</th>
              <th>Share of 48 kB</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((each) => (
              <tr key={`${each.name}${each.address}`}>
                <td>
                  <code>{each.name}</code>
                </td>
                <td>
                  <code>{typeOf(each)}</code>
                </td>
                <td class="values">
                  <Values trace={trace} pe={pe} symbols={symbols} symbol={each} />
                </td>
                <td class="num">0x{each.address.toString(16).padStart(4, "0")}</td>
                <td class="num">{each.bytes.toLocaleString()}</td>
                <td>
                  <Share share={each.bytes / CAPACITY} label={`${each.name}: ${each.bytes} of ${CAPACITY} bytes`} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {symbols.length > SYMBOLS_SHOWN && <button onClick={() => setAll(!all)}>{all ? "The largest" : `All ${symbols.length}, by address`}</button>}
    </>
  );
}

function Values(props: { trace: Trace; pe: number; symbols: MemorySymbol[]; symbol: MemorySymbol }): JSX.Element {
  const view = bytesOf(props.trace.memory, props.pe, props.symbols, props.symbol);
  return view ? <code>{valuesOf(props.symbol, view)}</code> : <span class="quiet">not stored</span>;
}
