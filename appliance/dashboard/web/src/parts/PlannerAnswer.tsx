/** The planner's answer: time, memory, scaling, loss and advice for one model on a number of systems. */

import type { JSX } from "preact";
import type { Schemas } from "../api";
import { count, duration, figure, percent, quantity, size } from "../format";
import { Card, Facts, Share } from "./basics";
import { memoryNote } from "./planner";
import { Chart } from "./Chart";

type Report = Schemas["EstimateReport"];

const DAY_SECONDS = 86_400;
const GREY = "#7a8594";
const ORANGE = "#e8642c";
const BLUE = "#0072b2";

const TERMS = [
  ["compute", "Compute"],
  ["injection", "Weights in"],
  ["reduction", "Gradients out"],
  ["update", "MemoryX update"],
  ["input", "Input"],
  ["exposed", "Waiting at the boundary"],
] as const;

const PHASES = [
  ["ingress", "Until the coordinator answers"],
  ["compile", "Compiling"],
  ["cached_compile", "Compiling, if it was compiled before"],
  ["load", "Preparing"],
  ["send_weights", "Sending initial weights"],
  ["programming", "Programming the wafer"],
  ["begin", "Beginning"],
  ["checkpoint", "Each checkpoint"],
  ["teardown", "Ending"],
] as const;

export function PlannerAnswer({ report }: { report: Report }): JSX.Element {
  return (
    <>
      <Summary report={report} />
      <div class="grid">
        <Terms report={report} />
        <Memory report={report} />
      </div>
      <div class="grid">
        <Throughput report={report} />
        <SpeedUp report={report} />
      </div>
      <div class="grid">
        <Loss report={report} />
        <Phases report={report} />
        <Mup report={report} />
      </div>
    </>
  );
}

function Summary({ report }: { report: Report }): JSX.Element {
  return (
    <Card title={`${report.model} on ${report.systems} x ${report.machine}`}>
      <Facts
        of={[
          ["Step", duration(report.simulated_step_seconds)],
          ["Samples/s", figure(report.simulated_samples_per_second)],
          ["Interval", `${figure(report.simulated_samples_per_second_low)} to ${figure(report.simulated_samples_per_second_high)}`],
          ["Tokens/s", count(report.simulated_tokens_per_second)],
          ["Bound by", report.bound],
          ["Utilization", percent(report.simulated_utilization)],
          ["Batch", `${report.batch_size} (${report.num_micro_batches} x ${report.micro_batch} a system)`],
          ["Parameters", count(report.num_parameters)],
          ["MemoryX store", size(report.memoryx_bytes)],
          ["Tokens", count(report.tokens)],
          ["Training time", duration(report.simulated_days * DAY_SECONDS)],
          ["Energy", quantity(report.simulated_energy_kwh * 1000, "Wh")],
          ["Compute", quantity(report.training_flops, "FLOP")],
          ["Expected loss", report.expected_loss === null ? "unknown" : figure(report.expected_loss)],
        ]}
      />
      <p class="quiet small">
        Interval: samples/s if the model errs as it did for the worst log of a model that it was not fitted to.
        {report.outside_of_measured.length > 0 && ` Never measured, and therefore twice as wide: ${report.outside_of_measured.join(", ")}; in parentheses what was.`}
      </p>
    </Card>
  );
}

function Terms({ report }: { report: Report }): JSX.Element {
  const terms = report.simulated_terms as unknown as Record<string, number>;
  return (
    <Card title="Where a step goes">
      <table class="bars">
        <tbody>
          {TERMS.map(([key, label]) => {
            const seconds = terms[`${key}_seconds`] ?? 0;
            return (
              <tr key={key}>
                <th scope="row">{label}</th>
                <td style={{ width: "45%" }}>
                  <Share share={seconds / report.simulated_step_seconds} label={percent(seconds / report.simulated_step_seconds)} />
                </td>
                <td class="num">{duration(seconds)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <p class="quiet small">The first five run side by side; the longest is the bound.</p>
    </Card>
  );
}

function Memory({ report: { memory } }: { report: Report }): JSX.Element {
  return (
    <Card title="Wafer memory of one system">
      <table class="small bars">
        <tbody>
          <Bytes label="Working, widest layer step" used={memory.working_bytes} of={memory.capacity_bytes} />
          <Bytes label="Waiting for the backward pass" used={memory.boundary_bytes} of={memory.capacity_bytes} />
          <Bytes label="Each PE" used={memory.bytes_per_pe} of={memory.pe_capacity_bytes} />
        </tbody>
      </table>
      <p class="quiet small">{memoryNote(memory)}</p>
    </Card>
  );
}

function Bytes({ label, used, of }: { label: string; used: number; of: number }): JSX.Element {
  return (
    <tr>
      <th scope="row">{label}</th>
      <td style={{ width: "55%" }}>
        <Share share={used / of} label={percent(used / of)} />
        <span class="numbers">
          {size(used)} of {size(of)}
          {used > of && (
            <>
              , <span class="tone-warn unbroken">{size(used - of)} too much</span>
            </>
          )}
        </span>
      </td>
    </tr>
  );
}

/** As `csctl estimate --plot` draws it: both axes logarithmic, so that perfect scaling is straight. */
function Throughput({ report }: { report: Report }): JSX.Element {
  const x = report.weak_scaling.map((point) => point.systems);
  const first = report.weak_scaling[0];
  return (
    <Card title="Throughput">
      <Chart
        title="Samples per second over systems"
        x={x}
        xLabel="systems"
        isLog
        isLogX
        xTicks={x}
        format={figure}
        series={[
          { name: "perfect", values: x.map((systems) => systems * (first?.simulated_samples_per_second ?? 0)), dash: [4, 4], color: GREY },
          { name: `batch ${first?.batch_size ?? 0} per system`, values: report.weak_scaling.map((point) => point.simulated_samples_per_second), color: ORANGE },
          { name: `batch ${report.batch_size} in all`, values: report.strong_scaling.map((point) => point.simulated_samples_per_second), color: BLUE },
        ]}
      />
    </Card>
  );
}

function SpeedUp({ report }: { report: Report }): JSX.Element {
  const x = report.weak_scaling.map((point) => point.systems);
  return (
    <Card title="Scaling">
      <Chart
        title="Speed-up over one system"
        x={x}
        xLabel="systems"
        format={(value) => `${figure(value)} x`}
        series={[
          { name: "linear", values: x, dash: [4, 4], color: GREY },
          { name: "batch grows (weak)", values: report.weak_scaling.map((point) => point.simulated_speedup), color: ORANGE },
          { name: "batch fixed (strong)", values: report.strong_scaling.map((point) => point.simulated_speedup), color: BLUE },
        ]}
      />
    </Card>
  );
}

/** As `csctl estimate --loss-plot` draws it: the law around this compute, which is marked. */
function Loss({ report }: { report: Report }): JSX.Element {
  const { loss_curve: curve, expected_loss: expected, training_flops: flops } = report;
  return (
    <Card title="Expected loss">
      {expected === null || curve.length === 0 ? (
        <p class="quiet">The scaling law holds for decoders alone.</p>
      ) : (
        <>
          <Chart
            title="Loss over compute at 20 tokens per parameter"
            x={curve.map((point) => point.training_flops)}
            xLabel="training FLOP"
            isLogX
            xTicks={decades(curve)}
            format={figure}
            formatX={(value) => quantity(value, "FLOP")}
            series={[
              { name: "scaling law", values: curve.map((point) => point.loss), dash: [4, 4], color: GREY },
              { name: "this model", values: nearest(curve, flops).map((isHere) => (isHere ? expected : null)), color: ORANGE },
            ]}
          />
          <p class="quiet small">Nats per token on the Pile, if this compute goes to a model of the best size (Cerebras-GPT).</p>
        </>
      )}
    </Card>
  );
}

/** Every other power of ten on the curve. */
function decades(curve: Report["loss_curve"]): number[] {
  const flops = curve.map((point) => point.training_flops);
  const first = Math.ceil(Math.log10(Math.min(...flops)));
  const last = Math.floor(Math.log10(Math.max(...flops)));
  return Array.from({ length: Math.floor((last - first) / 2) + 1 }, (_, index) => 10 ** (first + 2 * index));
}

/** Which point of the curve lies at this compute. */
function nearest(curve: Report["loss_curve"], flops: number): boolean[] {
  const distances = curve.map((point) => Math.abs(Math.log(point.training_flops / flops)));
  const least = Math.min(...distances);
  return distances.map((distance) => distance === least);
}

function Phases({ report }: { report: Report }): JSX.Element {
  const phases = report.simulated_phases_seconds;
  return (
    <Card title="Around the steps">
      <table class="small bars">
        <tbody>
          {PHASES.map(([key, label]) => (
            <tr key={key}>
              <th scope="row">{label}</th>
              <td class="num">{duration(phases[key])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

function Mup({ report: { mup } }: { report: Report }): JSX.Element | null {
  if (mup === null) return null;
  return (
    <Card title="Hyper-parameters (muP)">
      <Facts
        of={[
          ["Learning rate, matrices", figure(mup.matrix_learning_rate)],
          ["Learning rate, embeddings", figure(mup.embedding_learning_rate)],
          ["Initial deviation, matrices", figure(mup.matrix_deviation)],
          ["Initial deviation, embeddings", figure(mup.embedding_deviation)],
          ["Factor on embeddings", figure(mup.embedding_multiplier)],
          ["Factor on logits", figure(mup.output_multiplier)],
          ["Factor on scores", figure(mup.attention_scale)],
        ]}
      />
      <p class="quiet small">Searched on a narrow model, they hold for this one.</p>
    </Card>
  );
}
