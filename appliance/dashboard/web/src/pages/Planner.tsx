/** What systems would do with a model, before anything is bought or queued. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useLocation, useSearch } from "wouter-preact";
import { get, Problem, type Schemas } from "../api";
import { Card, Trouble } from "../parts/basics";
import { NUMBERS, PUBLISHED, publishedOf, type Question, questionOf, searchOf, SWITCHES, withModel } from "../parts/planner";
import { PlannerAnswer } from "../parts/PlannerAnswer";

type Report = Schemas["EstimateReport"];

const REQUIRED = ["layers", "hidden"];
const PLACEHOLDERS: Readonly<Record<string, string>> = { decoder_layers: "none", lora_rank: "none", decoder_sequence: "as the source", vocab: "50257", sequence: "2048", systems: "1" };

interface Answered {
  /** The question as it was asked. */
  search: string;
  report?: Report;
  problem?: Problem;
}

/** What the planner says to a question; nothing of an earlier one stays beside a problem. */
function useAnswer(search: string): Answered | undefined {
  const [answered, setAnswered] = useState<Answered>();
  useEffect(() => {
    const abort = new AbortController();
    get<Report>(`/estimate?${search}`, abort.signal).then(
      (report) => setAnswered({ search, report }),
      (error: unknown) => {
        if (abort.signal.aborted) return;
        setAnswered({ search, problem: error instanceof Problem ? error : new Problem(0, "The appliance does not answer.", "") });
      },
    );
    return () => abort.abort();
  }, [search]);
  return answered;
}

export function Planner(): JSX.Element {
  const [path, navigate] = useLocation();
  const question = questionOf(useSearch());
  const search = searchOf(question);
  const answered = useAnswer(search);
  const ask = (next: Question): void => navigate(`${path}?${searchOf(next)}`);
  const isAsking = answered?.search !== search;
  const report = answered?.report;
  return (
    <>
      <div class="title">
        <h1>Planner</h1>
        <span class="quiet">Every time on this page is simulated.</span>
      </div>
      <Form key={search} question={question} isAsking={isAsking} onAsk={ask} />
      <Trouble problem={isAsking ? undefined : answered.problem} />
      {report && (
        <div class={isAsking ? "answer asking" : "answer"} aria-busy={isAsking}>
          <PlannerAnswer report={report} />
        </div>
      )}
    </>
  );
}

/** The inputs of a form that were filled in. */
const filledIn = (form: FormData): Question =>
  Object.fromEntries([...form].flatMap(([name, value]) => (typeof value === "string" && value.trim() && name !== "published" ? [[name, value.trim()]] : [])));

function Form({ question, isAsking, onAsk }: { question: Question; isAsking: boolean; onAsk: (question: Question) => void }): JSX.Element {
  return (
    <Card title="A transformer">
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          onAsk(filledIn(new FormData(event.currentTarget)));
        }}
      >
        <Model question={question} onAsk={onAsk} />
        {NUMBERS.map(([name, label]) => (
          <label class="field" key={name}>
            {label}
            <input name={name} type="number" min="1" step="1" defaultValue={question[name] ?? ""} placeholder={PLACEHOLDERS[name] ?? "chosen for you"} required={REQUIRED.includes(name)} />
          </label>
        ))}
        <label class="field">
          Sparsity
          <input name="sparsity" type="number" min="0" max="0.999" step="any" defaultValue={question.sparsity ?? ""} placeholder="none" title="Part of the block weights that is zero, as in 0.9" />
        </label>
        <label class="field">
          Machine
          <select name="machine" defaultValue={question.machine ?? "cs2"}>
            <option value="cs2">CS-2 (WSE-2)</option>
            <option value="cs3">CS-3 (WSE-3)</option>
          </select>
        </label>
        {SWITCHES.map(([name, label]) => (
          <label class="check" key={name}>
            <input type="checkbox" name={name} value="true" defaultChecked={question[name] === "true"} /> {label}
          </label>
        ))}
        <button class="primary" disabled={isAsking}>
          {isAsking ? "Computing..." : "Estimate"}
        </button>
      </form>
    </Card>
  );
}

/** A choice of published models; choosing one asks for it, trained as before. */
function Model({ question, onAsk }: { question: Question; onAsk: (question: Question) => void }): JSX.Element {
  const model = publishedOf(question);
  const choose = (name: string): void => {
    const chosen = PUBLISHED.find((each) => each.name === name);
    if (chosen) onAsk(withModel(question, chosen));
  };
  return (
    <label class="field model">
      Model
      <select name="published" aria-label="Published model" value={model?.name ?? ""} onChange={(event) => choose(event.currentTarget.value)}>
        {!model && <option value="">one of your own</option>}
        {PUBLISHED.map(({ name }) => (
          <option key={name}>{name}</option>
        ))}
      </select>
      <span class="small">{model ? model.source : "Its dimensions are those below."}</span>
    </label>
  );
}
