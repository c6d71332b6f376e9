/** Which of a job's sessions is shown, where it has run several. */

import type { JSX } from "preact";
import type { Schemas } from "../api";
import { useLive } from "../live";
import { progressText } from "./progress";

export const sessionKind = ({ is_training }: { is_training: boolean }): string => (is_training ? "training" : "evaluation");

/** `chosen` is a session's number; empty for the last one. */
export function SessionChoice({ id, name, chosen, onChoose }: { id: string; name: string; chosen: string; onChoose: (session: string) => void }): JSX.Element | null {
  const { value } = useLive<Schemas["RunSessionList"]>(`/jobs/${id}/sessions`, { topics: ["job", "progress"], id });
  if (!value || value.items.length < 2) return null;
  return (
    <select aria-label={name} value={chosen || String(value.items.length)} onChange={(event) => onChoose(event.currentTarget.value)}>
      {value.items.map((each) => (
        <option key={each.session} value={String(each.session)}>
          Session {each.session}: {sessionKind(each)}, {progressText(each)}
        </option>
      ))}
    </select>
  );
}
