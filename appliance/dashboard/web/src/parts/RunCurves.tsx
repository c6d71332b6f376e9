/** Curves of runs on one axis of steps: of one run job by job, or of several beside each other. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { figure } from "../format";
import { useAddress } from "./address";
import { Card, Empty, seriesColor } from "./basics";
import { Chart, type Series } from "./Chart";
import { curveTitle, MAX_POINTS, ordered } from "./Curves";
import { align, breaks, type Curve, thin } from "./curves";
import { behind, smoothed } from "./runTable";
import { type Followed, type Training, useSeries } from "./series";

export interface Line {
  /** What the legend calls it. */
  name: string;
  /** The curves of its jobs are one, each behind the one before. */
  jobs: readonly Followed[];
}

interface Named {
  name: string;
  curve: Curve;
}

/** The curves of each output, by name. `isApart` draws each job of a line in a colour of its own. */
function curvesOf(lines: readonly Line[], found: ReadonlyMap<string, Training>, isApart: boolean): Record<string, Named[]> {
  const outputs = [...new Set([...found.values()].flatMap((each) => Object.keys(each.curves)))];
  const made: Record<string, Named[]> = {};
  for (const output of outputs)
    made[output] = lines.flatMap(({ name, jobs }) => {
      const curves = behind(jobs.map((job) => found.get(job.id)?.curves[output] ?? []));
      if (!isApart) return [{ name, curve: curves.flat() }];
      return curves.map((curve, place) => ({ name: jobs[place]?.id ?? name, curve })).filter(({ curve }) => curve.length > 0);
    });
  return made;
}

const SMOOTHEST = 0.99;

export function RunCurves({ title, lines, empty, isApart = false }: { title: string; lines: readonly Line[]; empty: string; isApart?: boolean }): JSX.Element {
  const address = useAddress();
  const isLog = address.get("log") !== "";
  const weight = Math.min(Math.max(Number(address.get("smooth")) || 0, 0), SMOOTHEST);
  const found = useSeries(lines.flatMap((line) => line.jobs));
  const titles = Object.assign({}, ...[...found.values()].map((each) => each.titles)) as Record<string, string>;
  const key = lines.map((line) => `${line.name}:${line.jobs.map((job) => job.id).join(",")}`).join(" ");
  const curves = useMemo(() => curvesOf(lines, found, isApart), [key, found, isApart]);
  const names = ordered(Object.keys(curves), titles);
  return (
    <Card
      title={title}
      actions={
        <>
          <label class="small check">
            smoothing{" "}
            <input
              type="range"
              min="0"
              max={SMOOTHEST}
              step="0.01"
              value={weight}
              aria-valuetext={weight ? String(weight) : "none"}
              onInput={(event) => address.set({ smooth: Number(event.currentTarget.value) ? event.currentTarget.value : "" })}
            />
          </label>
          <label class="small check">
            <input type="checkbox" checked={isLog} onChange={(event) => address.set({ log: event.currentTarget.checked ? "1" : "" })} /> logarithmic
          </label>
        </>
      }
    >
      {names.length === 0 && <Empty>{empty}</Empty>}
      <div class="panels">
        {names.map((name) => (
          <Panel key={name} title={curveTitle(name, titles)} curves={curves[name] ?? []} isLog={isLog} weight={weight} />
        ))}
      </div>
    </Card>
  );
}

function Panel({ title, curves, isLog, weight }: { title: string; curves: readonly Named[]; isLog: boolean; weight: number }): JSX.Element {
  const { x, series, marks } = useMemo(() => {
    const aligned = align(curves.map(({ curve }) => thin(smoothed(curve, weight), MAX_POINTS)));
    const made: Series[] = curves.map(({ name }, place) => ({
      name,
      values: (aligned.values[place] ?? []).map((value) => (isLog && value !== null && value <= 0 ? null : value)),
      color: seriesColor(place),
    }));
    return { x: aligned.x, series: made, marks: curves.flatMap(({ curve }) => breaks(curve)) };
  }, [curves, isLog, weight]);
  return (
    <div>
      <h3>{title}</h3>
      {marks.length > 0 && <p class="tone-bad small">NaN or infinite from step {marks[0]}</p>}
      <Chart title={title} x={x} series={series} xLabel="step" format={figure} height={260} isLog={isLog} marks={marks} />
    </div>
  );
}
