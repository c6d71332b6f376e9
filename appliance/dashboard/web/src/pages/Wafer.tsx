/** The grid of PEs in a layer step: who works, who holds what, what comes in and goes out. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Link, useLocation, useSearch } from "wouter-preact";
import type { Schemas } from "../api";
import { count, duration, percent, rate, size } from "../format";
import { useLive } from "../live";
import { Card, Empty, Facts, Share, Trouble } from "../parts/basics";
import { heat, held, loads } from "../parts/heat";
import { axisNumbers, stepTime } from "../parts/waferTime";
import { savePng, saveSvg } from "../parts/save";
import { SessionChoice } from "../parts/SessionChoice";
import { Table } from "../parts/Table";

type Picture = Schemas["WaferPicture"];
type Layer = Picture["layers"][number];

const CELL = 10;

export function Wafer({ id }: { id: string }): JSX.Element {
  const [session, setSession] = useSession();
  const { value, problem } = useLive<Picture>(`/jobs/${id}/wafer${session ? `?session=${session}` : ""}`, { topics: ["job"], id });
  const [index, setIndex] = useState(0);
  const layer = value?.layers[Math.min(index, value.layers.length - 1)];
  return (
    <>
      <div class="title">
        <h1>Wafer</h1>
        <Link href={`/jobs/${id}`}>{id}</Link>
        <SessionChoice id={id} name="Session" chosen={session} onChoose={setSession} />
        <span class="quiet">Every time on this page is simulated.</span>
      </div>
      {problem && (problem.status === 404 ? <Empty>{problem.message}</Empty> : <Trouble problem={problem} />)}
      {value && !layer && <Empty>The program has no layer steps: nothing of it runs on the wafer.</Empty>}
      {value && layer && (
        <>
          <Steps picture={value} index={index} onChange={setIndex} />
          <div class="grid">
            <Heat key="use" id={id} picture={value} layer={layer} what="use" />
            <Heat key="held" id={id} picture={value} layer={layer} what="held" />
          </div>
          <StepTime picture={value} />
          <LayerFacts picture={value} layer={layer} />
          <Patterns layer={layer} />
        </>
      )}
    </>
  );
}

/** The session whose wafer is shown, kept in the address; empty for the last one. */
function useSession(): [string, (session: string) => void] {
  const [path, navigate] = useLocation();
  const session = new URLSearchParams(useSearch()).get("session") ?? "";
  return [session, (chosen) => navigate(chosen ? `${path}?session=${chosen}` : path, { replace: true })];
}

function Steps({ picture, index, onChange }: { picture: Picture; index: number; onChange: (index: number) => void }): JSX.Element {
  const last = picture.layers.length - 1;
  const longest = Math.max(...picture.layers.map((each) => each.simulated_seconds));
  const width = Math.max(100 / picture.layers.length, 0.4);
  return (
    <Card title="Layer steps, in stream order">
      <div class="controls">
        <button onClick={() => onChange(Math.max(index - 1, 0))} disabled={index === 0}>
          Previous
        </button>
        <select value={String(index)} aria-label="Layer step" onChange={(event) => onChange(Number(event.currentTarget.value))}>
          {picture.layers.map((layer, number) => (
            <option key={layer.name} value={String(number)}>
              {number + 1}: {layer.name}
            </option>
          ))}
        </select>
        <button onClick={() => onChange(Math.min(index + 1, last))} disabled={index === last}>
          Next
        </button>
      </div>
      <svg viewBox="0 0 100 12" preserveAspectRatio="none" width="100%" height="56" role="img" aria-label="Simulated time of each layer step">
        {picture.layers.map((layer, number) => {
          const height = Math.max((11 * layer.simulated_seconds) / longest, 0.4);
          return (
            <rect
              key={layer.name}
              x={number * width}
              y={12 - height}
              width={width * 0.82}
              height={height}
              fill={number === index ? "var(--accent-fill)" : layer.is_backward ? "#0072b2" : "#009e73"}
              style={{ cursor: "pointer" }}
              onClick={() => onChange(number)}
            >
              <title>{`${layer.name}: ${duration(layer.simulated_seconds)}`}</title>
            </rect>
          );
        })}
      </svg>
      <p class="legend">
        <span>
          <span class="swatch" style={{ background: "#009e73" }} /> forward
        </span>
        {picture.layers.some((each) => each.is_backward) && (
          <span>
            <span class="swatch" style={{ background: "#0072b2" }} /> backward
          </span>
        )}
        <span>
          <span class="swatch" style={{ background: "var(--accent-fill)" }} /> shown
        </span>
      </p>
    </Card>
  );
}

function Heat(props: { id: string; picture: Picture; layer: Layer; what: "use" | "held" }): JSX.Element {
  const { picture, layer, what } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const values = useMemo(() => (what === "use" ? loads(layer.patterns, picture.cells) : held(layer.patterns, picture.cells)), [layer, what, picture.cells]);
  const most = what === "use" ? 1 : Math.max(...values, 1);
  const title = what === "use" ? "Who works, while the grid computes" : "What each PE holds of the widest tensor";
  const unit = what === "use" ? percent : size;
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    values.forEach((value, index) => {
      context.fillStyle = heat(value / most);
      context.fillRect((index % picture.cells) * CELL, Math.floor(index / picture.cells) * CELL, CELL, CELL);
    });
  }, [values, most, picture.cells]);
  const name = `${props.id}-${layer.name}-${what}`;
  return (
    <Card
      title={title}
      actions={
        <>
          <button onClick={() => canvas.current && savePng(canvas.current, `${name}.png`)}>PNG</button>
          <button onClick={() => saveSvg({ values, most, cells: picture.cells, aspect: picture.grid_height / picture.grid_width, title: `${layer.name}: ${title}`, legend: unit }, `${name}.svg`)}>SVG</button>
        </>
      }
    >
      <div class="wafer">
        <canvas
          ref={canvas}
          width={picture.cells * CELL}
          height={picture.cells * CELL}
          style={{ aspectRatio: `${picture.grid_width} / ${picture.grid_height}` }}
          role="img"
          aria-label={`${title}: ${layer.name}, mean ${unit(values.reduce((sum, each) => sum + each, 0) / values.length)}, most ${unit(Math.max(...values))}`}
        />
        <Axis count={picture.grid_height} name="rows: tokens" side="down" />
        <Axis count={picture.grid_width} name="columns: features" side="across" />
      </div>
      <div class="legend">
        <span>0</span>
        <span style={{ display: "inline-flex", width: "8rem", height: ".8rem", alignSelf: "center" }} aria-hidden="true">
          {Array.from({ length: 16 }, (_, step) => (
            <span key={step} style={{ flex: "1", background: heat(step / 15) }} />
          ))}
        </span>
        <span>{unit(most)}</span>
        <span>
          {picture.grid_width} x {picture.grid_height} PEs, drawn to scale
        </span>
      </div>
    </Card>
  );
}

/** Numbers of PEs along one side of the grid, counted from its upper left corner. */
function Axis({ count: last, name, side }: { count: number; name: string; side: "down" | "across" }): JSX.Element {
  return (
    <div class={`axis ${side}`} aria-hidden="true">
      {axisNumbers(last).map((number) => (
        <span key={number} style={side === "down" ? { top: `${(100 * number) / last}%` } : { left: `${(100 * number) / last}%` }}>
          {number}
        </span>
      ))}
      <em>{name}</em>
    </div>
  );
}

/** What a step consists of: its layer steps, what lies between them, and what follows. */
function StepTime({ picture }: { picture: Picture }): JSX.Element | null {
  const time = stepTime(picture);
  if (!time) return null;
  return (
    <Card title="Where a step's time goes">
      <table class="bars">
        <tbody>
          {time.parts.map(({ name, seconds, note }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td style={{ width: "30%" }}>
                <Share share={seconds / time.total} label={percent(seconds / time.total)} />
              </td>
              <td class="num">{duration(seconds)}</td>
              <td class="quiet small note">{note}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="quiet small">
        Together {duration(time.total)}, the simulated step{(picture.num_micro_batches ?? 1) > 1 ? `: ${picture.num_micro_batches} micro-batches, one after the other` : ""}. While the grid computes, the next weights stream in and the last gradients stream out.
      </p>
    </Card>
  );
}

function LayerFacts({ picture, layer }: { picture: Picture; layer: Layer }): JSX.Element {
  return (
    <Card title={layer.name}>
      <Facts
        of={[
          ["Module", layer.module || "none"],
          ["Pass", layer.is_backward ? "backward" : "forward"],
          ["Simulated time", duration(layer.simulated_seconds)],
          ["of it computing", duration(layer.simulated_compute_seconds)],
          ...(layer.simulated_change_seconds == null ? [] : [["of it changing kernels", duration(layer.simulated_change_seconds)] as const]),
          ...(layer.simulated_start_seconds == null ? [] : [["Begins after", duration(layer.simulated_start_seconds)] as const]),
          ["PEs at work meanwhile", percent(layer.busy_share)],
          ["Weights in", `${rate(layer.simulated_weight_bytes_per_second)} of ${rate(picture.link_bytes_per_second)}`],
          ["Gradients out", `${rate(layer.simulated_gradient_bytes_per_second)} of ${rate(picture.link_bytes_per_second)}`],
          ["Memory of a PE, widest layer step", `${size(picture.bytes_per_pe)} of ${size(picture.pe_capacity_bytes)}`],
          ["Micro-batch", `${picture.micro_batch} samples`],
          ["Machine", picture.machine],
        ]}
      />
    </Card>
  );
}

function Patterns({ layer }: { layer: Layer }): JSX.Element {
  return (
    <Card title="What lies where">
      <Table>
        <thead>
          <tr>
            <th>Operations</th>
            <th class="num">Share of cycles</th>
            <th class="num">Tokens</th>
            <th class="num">Features</th>
            <th class="num">Tokens a PE</th>
            <th class="num">Features a PE</th>
            <th class="num">Bytes a PE</th>
          </tr>
        </thead>
        <tbody>
          {layer.patterns.map((each) => (
            <tr key={`${each.tokens}x${each.features}`}>
              <td>
                {each.num_operations} x, mostly {each.kind}
              </td>
              <td class="num">{percent(each.share_of_cycles)}</td>
              <td class="num">{count(each.tokens)}</td>
              <td class="num">{count(each.features)}</td>
              <td class="num">{each.tokens_per_pe}</td>
              <td class="num">{each.features_per_pe}</td>
              <td class="num">{size(each.bytes_per_pe)}</td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Card>
  );
}
