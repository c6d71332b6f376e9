/** What training shows step by step: every scalar that the program puts out, compared with other jobs. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Schemas } from "../api";
import { figure } from "../format";
import { useLive } from "../live";
import { Card, Empty, seriesColor } from "./basics";
import { Chart, type Series } from "./Chart";
import { inOrder, outputTitle } from "./outputs";
import { align, breaks, type Curve, seriesOf, thin } from "./curves";
import { NO_TRAINING, useSeries } from "./series";

type JobPage = Schemas["JobPage"];

export const MAX_POINTS = 2000;

export function Curves({ id, isEnded }: { id: string; isEnded: boolean }): JSX.Element {
  const { curves: own, titles } = useSeries([{ id, isEnded }]).get(id) ?? NO_TRAINING;
  const [other, setOther] = useState("");
  const others = useLive<JobPage>("/jobs?type=execute&all_states=true&order=newest&limit=50", { topics: ["job"] });
  const names = ordered(Object.keys(own), titles);
  const hasEvaluations = names.some((name) => seriesOf(name).isEvaluation);
  return (
    <Card
      title={hasEvaluations ? "Training and evaluation" : "Training"}
      actions={
        <label class="small">
          compare with{" "}
          <select value={other} onChange={(event) => setOther(event.currentTarget.value)}>
            <option value="">no other job</option>
            {others.value?.items
              .filter((each) => each.id !== id)
              .map((each) => (
                <option key={each.id} value={each.id}>
                  {each.labels["name"] ?? each.id} ({each.phase.toLowerCase()})
                </option>
              ))}
          </select>
        </label>
      }
    >
      {names.length === 0 && <Empty>{isEnded ? "The job ended before its first step." : "The curves begin with the first step."}</Empty>}
      {other ? <Compared key={other} own={own} names={names} titles={titles} id={id} other={other} /> : <Panels curves={[{ job: id, curves: own }]} names={names} titles={titles} />}
    </Card>
  );
}

/** Curves of training first, then those of evaluations. */
export function ordered(curves: readonly string[], titles: Record<string, string>): string[] {
  const rank = new Map(inOrder([...new Set(curves.map((curve) => seriesOf(curve).name))], titles).map((name, place) => [name, place]));
  const place = (curve: string): number => {
    const { name, isEvaluation } = seriesOf(curve);
    return (rank.get(name) ?? 0) + (isEvaluation ? rank.size : 0);
  };
  return [...curves].sort((a, b) => place(a) - place(b));
}

/** What a curve is called: that of evaluations says so. */
export function curveTitle(curve: string, titles: Record<string, string>): string {
  const { name, isEvaluation } = seriesOf(curve);
  return isEvaluation ? `evaluation: ${outputTitle(name, titles)}` : outputTitle(name, titles);
}

function Compared({ own, names, titles, id, other }: { own: Record<string, Curve>; names: string[]; titles: Record<string, string>; id: string; other: string }): JSX.Element {
  const { curves: theirs } = useSeries([{ id: other, isEnded: false }]).get(other) ?? NO_TRAINING;
  return (
    <Panels
      curves={[
        { job: id, curves: own },
        { job: other, curves: theirs },
      ]}
      names={names}
      titles={titles}
    />
  );
}

/** The first output as wide as the page, the others side by side where there is room. */
function Panels({ curves, names, titles }: { curves: { job: string; curves: Record<string, Curve> }[]; names: string[]; titles: Record<string, string> }): JSX.Element {
  return (
    <div class="panels">
      {names.map((name, index) => (
        <Panel key={name} name={curveTitle(name, titles)} index={index} curves={curves.map((each) => ({ job: each.job, curve: each.curves[name] ?? [] }))} />
      ))}
    </div>
  );
}

function Panel({ name, index, curves }: { name: string; index: number; curves: { job: string; curve: Curve }[] }): JSX.Element {
  const { x, series, marks } = useMemo(() => {
    const aligned = align(curves.map((each) => thin(each.curve, MAX_POINTS)));
    const made: Series[] = curves.map((each, position) => ({
      name: curves.length > 1 ? each.job : name,
      values: aligned.values[position] ?? [],
      color: seriesColor(curves.length > 1 ? position : index),
    }));
    return { x: aligned.x, series: made, marks: curves.flatMap((each) => breaks(each.curve)) };
  }, [name, index, ...curves.map((each) => each.curve)]);
  return (
    <div>
      <h3>{name}</h3>
      {marks.length > 0 && <p class="tone-bad small">NaN or infinite from step {marks[0]}{marks.length > 1 && `, and ${marks.length - 1} times later`}</p>}
      <Chart title={name} x={x} series={series} xLabel="step" format={figure} height={240} marks={marks} />
    </div>
  );
}
