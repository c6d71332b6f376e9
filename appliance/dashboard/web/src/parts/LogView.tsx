/** What a job's pods print, followed as it comes; search and download. Only the visible lines exist. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Schemas } from "../api";
import { size } from "../format";
import { useLive } from "../live";
import { Card, None, Trouble } from "./basics";
import { readable } from "./logline";
import { matches } from "./search";
import { type Span, visibleSpan } from "./visible";

type LogList = Schemas["LogList"];

const MAX_LINES = 20_000;
const LINE_HEIGHT = 19;

export function Logs({ id, pod, onChoose }: { id: string; pod: string; onChoose: (pod: string) => void }): JSX.Element {
  const logs = useLive<LogList>(`/jobs/${id}/logs`, { topics: ["job"], id });
  const { value, problem } = logs;
  const names = value?.items.map((each) => each.pod) ?? [];
  const chosen = names.includes(pod) ? pod : (names.find((name) => name.includes("coordinator")) ?? names[0]);
  return (
    <Card title="Logs" id="logs">
      {problem && chosen && <Trouble problem={problem} />}
      {!chosen && <None of={logs}>No pod has printed anything.</None>}
      {chosen && (
        <>
          <select aria-label="Log of" value={chosen} onChange={(event) => onChoose(event.currentTarget.value)}>
            {value?.items.map((each) => (
              <option key={each.pod} value={each.pod}>
                {each.pod.replace(`${id}-`, "")} ({size(each.num_bytes)})
              </option>
            ))}
          </select>
          <LogView key={chosen} job={id} pod={chosen} />
        </>
      )}
    </Card>
  );
}

function LogView({ job, pod }: { job: string; pod: string }): JSX.Element {
  const [lines, setLines] = useState<string[]>([]);
  const [wanted, setWanted] = useState("");
  const [isFollowing, setFollowing] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  const [span, setSpan] = useState<Span>({ first: 0, end: 60 });
  const url = `/api/v1/jobs/${job}/logs/${pod}`;

  useEffect(() => {
    const source = new EventSource(`${url}/stream?tail=1000`);
    let fresh: string[] = [];
    // Lines arrive in bursts; the page is drawn once for each frame, not for each message.
    let frame = 0;
    const show = (): void => {
      frame = 0;
      const batch = fresh;
      fresh = [];
      setLines((old) => [...old, ...batch].slice(-MAX_LINES));
    };
    source.addEventListener("lines", (event) => {
      const { text } = JSON.parse((event as MessageEvent<string>).data) as { text: string };
      for (const line of text.replace(/\n$/, "").split("\n")) fresh.push(...readable(line).split("\n"));
      frame ||= requestAnimationFrame(show);
    });
    source.addEventListener("end", () => source.close());
    return () => {
      source.close();
      cancelAnimationFrame(frame);
    };
  }, [url]);

  const shown = useMemo(() => (wanted ? lines.filter((line) => matches(line, wanted)) : lines), [lines, wanted]);
  const widest = useMemo(() => shown.reduce((most, line) => Math.max(most, line.length), 0), [shown]);

  const measure = (): void => {
    const element = box.current;
    if (!element) return;
    const next = visibleSpan(element.scrollTop, element.clientHeight, LINE_HEIGHT, shown.length);
    setSpan((old) => (old.first === next.first && old.end === next.end ? old : next));
  };
  useEffect(() => {
    if (isFollowing && box.current) box.current.scrollTop = box.current.scrollHeight;
    measure();
  }, [shown, isFollowing]);
  return (
    <div>
      <div class="controls">
        <input type="search" placeholder="Search" aria-label={`Search in the log of ${pod}`} value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
        <label class="check">
          <input type="checkbox" checked={isFollowing} onChange={(event) => setFollowing(event.currentTarget.checked)} /> follow
        </label>
        <a class="button" href={`${url}?download=true`} download>
          Download
        </a>
        <span class="quiet small numbers">
          {shown.length} of {lines.length} lines
        </span>
      </div>
      <div class="log" ref={box} tabIndex={0} role="log" aria-label={`Log of ${pod}`} onScroll={measure}>
        {shown.length === 0 && (lines.length ? "No line matches." : "Nothing written yet.")}
        <div style={{ height: `${shown.length * LINE_HEIGHT}px`, paddingTop: `${span.first * LINE_HEIGHT}px`, minWidth: `${widest}ch` }}>
          {shown.slice(span.first, span.end).join("\n")}
        </div>
      </div>
    </div>
  );
}
