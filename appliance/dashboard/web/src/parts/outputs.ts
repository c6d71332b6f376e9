/** Outputs of a program: what they are called, and in what order they are shown. */

const RATE = "samples_per_second";
/** Begins the names of what the pods of a job use; no output of a program does. */
const PODS = "pods_";

/** The title that the appliance knows, else the client's name without the words that all of them begin with. */
export function outputTitle(name: string, titles: Readonly<Record<string, string>>): string {
  return titles[name] ?? (name.replace(/^output_/, "").replaceAll("_", " ") || name);
}

/** Losses first, the rate of training and what the pods use last. */
export function inOrder(names: readonly string[], titles: Readonly<Record<string, string>>): string[] {
  const rank = (name: string): number => (name.startsWith(PODS) ? 3 : name === RATE ? 2 : outputTitle(name, titles).includes("loss") ? 0 : 1);
  return [...names].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}
