/** Small pieces that every page uses. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { Problem } from "../api";

const TONES: Record<string, string> = {
  RUNNING: "good",
  SUCCEEDED: "good",
  QUEUED: "info",
  CREATED: "info",
  SCHEDULED: "info",
  INITIALIZING: "info",
  FAILED: "bad",
  FAILING: "bad",
  CANCELLED: "quiet",
};

export function Phase({ phase }: { phase: string }): JSX.Element {
  return <span class={`badge tone-${TONES[phase] ?? "quiet"}`}>{phase}</span>;
}

export function Card(props: {
  title?: string;
  id?: string;
  class?: string;
  actions?: ComponentChildren;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <section class={`card ${props.class ?? ""}`} id={props.id} aria-label={props.title}>
      {props.title && (
        <div class="title">
          <h2>{props.title}</h2>
          {props.actions && <div class="push controls">{props.actions}</div>}
        </div>
      )}
      {props.children}
    </section>
  );
}

export function Facts({ of }: { of: readonly (readonly [string, ComponentChildren])[] }): JSX.Element {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name} class={typeof value === "string" && value.length > 22 ? "wide" : undefined}>
          <dt>{name}</dt>
          <dd>{typeof value === "string" ? <Unbroken text={value} /> : value}</dd>
        </div>
      ))}
    </dl>
  );
}

const LONGEST_UNBROKEN = 12;

/** Words, dates and quantities that break between them and not within; only what is long, as an id is, may. */
const Unbroken = ({ text }: { text: string }): JSX.Element => (
  <>
    {text.split(" ").map((word, index) => (
      <>
        {index > 0 && " "}
        {word.length > LONGEST_UNBROKEN ? word : <span class="unbroken">{word}</span>}
      </>
    ))}
  </>
);

/** The title of the browser's tab. */
export function Title({ words }: { words: string }): null {
  useEffect(() => {
    document.title = `${words} - Wafer appliance`;
  }, [words]);
  return null;
}

/** What stands in place of rows: that there are none, once the appliance has said so; until then that it has not. */
export function None({ of, children }: { of: { value: unknown; problem: Problem | undefined }; children: ComponentChildren }): JSX.Element {
  if (of.problem) return <Trouble problem={of.problem} />;
  return <Empty>{of.value === undefined ? "Loading" : children}</Empty>;
}

export const Empty = ({ children }: { children: ComponentChildren }): JSX.Element => <p class="empty">{children}</p>;

export function Trouble({ problem }: { problem: Problem | undefined }): JSX.Element | null {
  if (!problem) return null;
  return (
    <div class="card problem" role="alert">
      <strong>{problem.message}</strong>
      {problem.hint && <div class="quiet">{problem.hint}</div>}
    </div>
  );
}

/** A share of a whole as a bar; one of more than the whole is drawn over the limit, which a line marks. */
export function Share({ share, label }: { share: number; label: string }): JSX.Element {
  const width = `${Math.min(Math.max(share, 0), 1) * 100}%`;
  const isOver = share > 1;
  return (
    <div class="bar-track" role="img" aria-label={isOver ? `${label}, over the limit` : label}>
      <div class="bar-fill" style={{ width: isOver ? `${100 / share}%` : width }} />
      {isOver && <div class="bar-over" />}
    </div>
  );
}

export const Labels = ({ labels }: { labels: Record<string, string> }): JSX.Element => (
  <>
    {Object.entries(labels).map(([key, value]) => (
      <span class="tag" key={key}>
        {key}={value}
      </span>
    ))}
  </>
);

/** Colours of series, told apart also without seeing red and green (Okabe and Ito, 2008). */
export const SERIES = ["#e8642c", "#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#d5a000", "#8a6fd1", "#7a8594"] as const;
export const seriesColor = (index: number): string => SERIES[index % SERIES.length] ?? SERIES[0];
