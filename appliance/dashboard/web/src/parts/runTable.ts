/** Runs as a table of what distinguishes them: parameters, last values, and curves to compare. Pure. */

import type { Schemas } from "../api";
import type { Curve } from "./curves";

type Run = Schemas["Run"];

export const MAX_COMPARED = 8;
/** Columns of parameters and of values that a page shows; a file has them all. */
export const MAX_COLUMNS = 6;

/** Labels that say which run it is, and not what it does. */
const NAMING = new Set(["name", "array"]);
const RATE = "samples per second";

/** A command as one types it into a shell. */
export function commandLine(argv: readonly string[]): string {
  return argv.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`)).join(" ");
}

/** What a run was given: its labels, and the options of its command as in `--lr 1e-3` or `--lr=1e-3`. */
export function parametersOf(run: Run): Record<string, string> {
  const labels = Object.entries(run.labels).filter(([key]) => !NAMING.has(key));
  return { ...optionsOf(run.argv), ...Object.fromEntries(labels) };
}

function optionsOf(argv: readonly string[]): Record<string, string> {
  const found: Record<string, string> = {};
  argv.forEach((word, place) => {
    const [, name, value] = /^--([\w.-]+)(?:=(.*))?$/s.exec(word) ?? [];
    if (name === undefined) return;
    const next = argv[place + 1];
    found[name] = value ?? (next === undefined || /^--?[a-z]/i.test(next) ? "yes" : next);
  });
  return found;
}

/** The parameters in which runs differ, in the order in which they are first met. */
export function distinguishing(runs: readonly Run[]): string[] {
  const given = runs.map(parametersOf);
  const names = [...new Set(given.flatMap((each) => Object.keys(each)))];
  return names.filter((name) => new Set(given.map((each) => each[name])).size > 1);
}

/** The outputs of which any run has a value: losses first, the rate of training last. */
export function outputsOf(runs: readonly Run[]): string[] {
  const rank = (name: string): number => (name === RATE ? 2 : name.includes("loss") ? 0 : 1);
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.last_values)))];
  return names.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

/** Runs as comma-separated values, with every parameter and output. */
export function runsCsv(runs: readonly Run[]): string {
  const names = [...new Set(runs.flatMap((run) => Object.keys(parametersOf(run))))];
  const outputs = outputsOf(runs);
  const head = ["run", "name", "phase", "user", "script", "commit", "created", "ended", ...names, "step", ...outputs.map((name) => `last ${name}`)];
  const rows = runs.map((run) => {
    const given = parametersOf(run);
    const own = [run.id, run.name, run.phase, run.user || String(run.uid), run.script, run.git_commit, run.created_at, run.ended_at ?? ""];
    const values = outputs.map((name) => run.last_values[name]);
    return [...own, ...names.map((name) => given[name] ?? ""), String(run.step || ""), ...values.map((value) => (value === undefined ? "" : String(value)))];
  });
  return [head, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

/** A cell that no spreadsheet takes for a formula; numbers stay numbers. */
function cell(text: string): string {
  const harmless = /^[=+@-]/.test(text) && !Number.isFinite(Number(text)) ? `'${text}` : text;
  return /[",\n\r]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}

/** Runs with one more chosen, or one less; of more than can be compared the first one goes. */
export function toggled(chosen: readonly string[], run: string): string[] {
  if (chosen.includes(run)) return chosen.filter((each) => each !== run);
  return [...chosen, run].slice(-MAX_COMPARED);
}

/** Curves of a run's jobs one behind the other: each begins at the step that the one before has reached. */
export function behind(curves: readonly Curve[]): Curve[] {
  let reached = 0;
  return curves.map((curve) => {
    const offset = reached;
    reached = curve.reduce((most, point) => Math.max(most, offset + point.step), reached);
    return curve.map((point) => ({ step: offset + point.step, value: point.value }));
  });
}

/** A curve whose points are averages of those before, each weighing `weight` of the next one's; 0 leaves it. */
export function smoothed(curve: Curve, weight: number): Curve {
  if (weight <= 0) return curve;
  let sum = 0;
  let norm = 0;
  return curve.map((point) => {
    if (point.value === null) return point;
    sum = weight * sum + (1 - weight) * point.value;
    norm = weight * norm + (1 - weight);
    return { step: point.step, value: sum / norm };
  });
}
