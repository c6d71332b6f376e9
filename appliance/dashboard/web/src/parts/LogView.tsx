/** A pod's log that follows as it grows; search and download. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { matches } from "./search";

const MAX_LINES = 5000;

export function LogView({ url, download, title }: { url: string; download: string; title: string }): JSX.Element {
  const [lines, setLines] = useState<string[]>([]);
  const [wanted, setWanted] = useState("");
  const [isFollowing, setFollowing] = useState(true);
  const box = useRef<HTMLDivElement>(null);

  useEffect(() => {
    setLines([]);
    const source = new EventSource(url);
    let fresh: string[] = [];
    // Lines arrive in bursts; the page is drawn once for each frame, not for each line.
    let frame = 0;
    const show = (): void => {
      frame = 0;
      const batch = fresh;
      fresh = [];
      setLines((old) => [...old, ...batch].slice(-MAX_LINES));
    };
    source.addEventListener("line", (event) => {
      fresh.push((JSON.parse((event as MessageEvent<string>).data) as { text: string }).text);
      frame ||= requestAnimationFrame(show);
    });
    source.addEventListener("end", () => source.close());
    return () => {
      source.close();
      cancelAnimationFrame(frame);
    };
  }, [url]);

  useEffect(() => {
    if (isFollowing && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, isFollowing]);

  const shown = wanted ? lines.filter((line) => matches(line, wanted)) : lines;
  return (
    <div>
      <div class="controls">
        <input type="search" placeholder="Search" aria-label={`Search in the log of ${title}`} value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
        <label class="small">
          <input type="checkbox" checked={isFollowing} onChange={(event) => setFollowing(event.currentTarget.checked)} /> follow
        </label>
        <a class="button" href={download} download>
          Download
        </a>
        <span class="quiet small numbers">
          {shown.length} of {lines.length} lines
        </span>
      </div>
      <div class="log" ref={box} tabIndex={0} role="log" aria-label={`Log of ${title}`}>
        {shown.length ? shown.join("\n") : lines.length ? "No line matches." : "Nothing written yet."}
      </div>
    </div>
  );
}
