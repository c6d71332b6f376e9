/** What systems would do with a model, before anything is bought or queued. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, Problem, type Schemas } from "../api";
import { count, duration, figure, percent, size } from "../format";
import { Card, Facts, Share, Trouble } from "../parts/basics";
import { Chart } from "../parts/Chart";

type Report = Schemas["EstimateReport"];

const NUMBERS = [
  ["layers", "Layers", "24"],
  ["decoder_layers", "Decoder layers (T5)", ""],
  ["hidden", "Hidden size", "2048"],
  ["heads", "Attention heads", "16"],
  ["kv_heads", "Key and value heads", ""],
  ["head_width", "Head width", ""],
  ["ffn", "FFN size", ""],
  ["vocab", "Vocabulary", "50257"],
  ["sequence", "Sequence length", "2048"],
  ["decoder_sequence", "Target length (T5)", ""],
  ["systems", "Systems", "16"],
  ["batch", "Global batch", ""],
  ["micro_batch", "Micro-batch", ""],
  ["tokens", "Training tokens", ""],
] as const;

const OPTIONAL: Record<string, string> = { decoder_layers: "none", decoder_sequence: "as the source" };

const TERMS = [
  ["compute", "Compute"],
  ["injection", "Weights in"],
  ["reduction", "Gradients out"],
  ["update", "MemoryX update"],
  ["input", "Input"],
  ["exposed", "Waiting at the boundary"],
] as const;

export function Planner(): JSX.Element {
  const [report, setReport] = useState<Report>();
  const [problem, setProblem] = useState<Problem>();
  const [isAsking, setAsking] = useState(false);

  const submit = async (form: FormData): Promise<void> => {
    const query = new URLSearchParams();
    for (const [name, value] of form) if (typeof value === "string" && value.trim()) query.set(name, value.trim());
    setAsking(true);
    try {
      setReport(await get<Report>(`/estimate?${query}`));
      setProblem(undefined);
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(0, "The appliance does not answer.", ""));
    }
    setAsking(false);
  };

  return (
    <>
      <div class="title">
        <h1>Planner</h1>
        <span class="quiet">Every time on this page is simulated.</span>
      </div>
      <Card title="A transformer">
        <form
          class="form"
          onSubmit={(event) => {
            event.preventDefault();
            void submit(new FormData(event.currentTarget));
          }}
        >
          {NUMBERS.map(([name, label, initial]) => (
            <label class="field" key={name}>
              {label}
              <input name={name} type="number" min="1" step="1" defaultValue={initial} placeholder={initial ? "" : OPTIONAL[name] ?? "chosen for you"} required={name === "layers" || name === "hidden"} />
            </label>
          ))}
          <label class="field">
            Sparsity
            <input name="sparsity" type="number" min="0" max="0.999" step="any" placeholder="none" title="Part of the block weights that is zero, as in 0.9" />
          </label>
          <label class="field">
            Machine
            <select name="machine">
              <option value="cs2">CS-2 (WSE-2)</option>
              <option value="cs3">CS-3 (WSE-3)</option>
            </select>
          </label>
          <label class="check">
            <input type="checkbox" name="bidirectional" value="true" /> encoder (BERT)
          </label>
          <label class="check">
            <input type="checkbox" name="gated" value="true" /> gated FFN
          </label>
          <label class="check">
            <input type="checkbox" name="untied" value="true" /> separate output matrix
          </label>
          <button class="primary" disabled={isAsking}>
            {isAsking ? "Computing..." : "Estimate"}
          </button>
        </form>
      </Card>
      <Trouble problem={problem} />
      {report && <Answer report={report} />}
    </>
  );
}

function Answer({ report }: { report: Report }): JSX.Element {
  const terms = report.simulated_terms as unknown as Record<string, number>;
  const { memory } = report;
  return (
    <>
      <Card title={`${report.model} on ${report.systems} x ${report.machine}`}>
        <Facts
          of={[
            ["Step", duration(report.simulated_step_seconds)],
            ["Samples/s", figure(report.simulated_samples_per_second)],
            ["Tokens/s", count(report.simulated_tokens_per_second)],
            ["Bound by", report.bound],
            ["Utilization", percent(report.simulated_utilization)],
            ["Batch", `${report.batch_size} (${report.num_micro_batches} x ${report.micro_batch} a system)`],
            ["Parameters", count(report.num_parameters)],
            ["MemoryX store", size(report.memoryx_bytes)],
            ["Tokens", count(report.tokens)],
            ["Training time", duration(report.simulated_days * 86400)],
            ["Energy", `${count(report.simulated_energy_kwh * 1000)}Wh`],
            ["Expected loss", report.expected_loss === null ? "unknown" : figure(report.expected_loss)],
          ]}
        />
      </Card>
      <div class="grid">
        <Card title="Where a step goes">
          <table>
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
        <Card title="Wafer memory of one system">
          <table class="small">
            <tbody>
              <Bytes label="Working, widest layer step" used={memory.working_bytes} of={memory.capacity_bytes} />
              <Bytes label="Waiting for the backward pass" used={memory.boundary_bytes} of={memory.capacity_bytes} />
              <Bytes label="Each PE" used={memory.bytes_per_pe} of={memory.pe_capacity_bytes} />
            </tbody>
          </table>
          <p class="quiet small">
            {memory.spills ? "What waits for the backward pass leaves the wafer and returns." : "What waits for the backward pass stays on the wafer."}
          </p>
        </Card>
        <ScalingCurve report={report} />
      </div>
    </>
  );
}

function Bytes({ label, used, of }: { label: string; used: number; of: number }): JSX.Element {
  return (
    <tr>
      <th scope="row">{label}</th>
      <td>
        <Share share={used / of} label={percent(used / of)} />
        <span class="numbers">
          {size(used)} of {size(of)}
        </span>
      </td>
    </tr>
  );
}

function ScalingCurve({ report }: { report: Report }): JSX.Element {
  const x = report.weak_scaling.map((point) => point.systems);
  return (
    <Card title="Scaling">
      <Chart
        title="Speed-up over one system"
        x={x}
        xLabel="systems"
        format={(value) => `${figure(value)} x`}
        series={[
          { name: "linear", values: x, dash: [4, 4], color: "#7a8594" },
          { name: "batch grows (weak)", values: report.weak_scaling.map((point) => point.simulated_speedup), color: "#e8642c" },
          { name: "batch fixed (strong)", values: report.strong_scaling.map((point) => point.simulated_speedup), color: "#0072b2" },
        ]}
      />
    </Card>
  );
}
