/** A job as people know it: by its label `name` where it has one, with its id. */

import type { JSX } from "preact";
import { Link } from "wouter-preact";

/** Labels of some jobs, by id. */
export type JobLabels = ReadonlyMap<string, Readonly<Record<string, string>>>;

export const nameOf = (labels: Readonly<Record<string, string>> | undefined): string => labels?.["name"] ?? "";

export function JobName({ id, labels }: { id: string; labels?: Readonly<Record<string, string>> | undefined }): JSX.Element {
  const name = nameOf(labels);
  return (
    <Link class="job" href={`/jobs/${id}`} title={name ? `${name}, ${id}` : id}>
      {name && <strong>{name}</strong>}
      <span class={name ? "small id" : "id"}>{id}</span>
    </Link>
  );
}
