/** Play, step and scrub through the cycles of a trace. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const SPEEDS = [1, 5, 20, 100, 1000, 10_000];
/** A tab that was away does not jump by more than so many seconds. */
const MOST_SECONDS = 0.25;

interface Props {
  first: number;
  last: number;
  time: number;
  onChange: (time: number) => void;
}

export function Player({ first, last, time, onChange }: Props): JSX.Element {
  const [isPlaying, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(20);
  const present = useRef(time);
  present.current = time;
  useEffect(() => {
    if (!isPlaying) return;
    let before = performance.now();
    let frame = requestAnimationFrame(function step(now) {
      const seconds = Math.min((now - before) / 1000, MOST_SECONDS);
      before = now;
      const next = Math.min(present.current + seconds * speed, last);
      onChange(next);
      if (next >= last) setPlaying(false);
      else frame = requestAnimationFrame(step);
    });
    return () => cancelAnimationFrame(frame);
  }, [isPlaying, speed, last]);
  const go = (to: number): void => {
    setPlaying(false);
    onChange(Math.min(Math.max(Math.floor(to), first), last));
  };
  const play = (): void => {
    if (time >= last) onChange(first);
    setPlaying(!isPlaying);
  };
  const cycle = Math.floor(time);
  return (
    <div class="player">
      <button onClick={() => go(cycle - 1)} disabled={cycle <= first} aria-label="One cycle back">
        Back
      </button>
      <button class="primary" onClick={play}>
        {isPlaying ? "Pause" : "Play"}
      </button>
      <button onClick={() => go(cycle + 1)} disabled={cycle >= last} aria-label="One cycle forward">
        Forward
      </button>
      <input type="range" min={first} max={last} step={1} value={cycle} aria-label="Cycle" aria-valuetext={`cycle ${cycle}`} onInput={(event) => go(Number(event.currentTarget.value))} />
      <label class="check">
        Cycle
        <input class="cycle" type="number" min={first} max={last} value={cycle} onChange={(event) => go(Number(event.currentTarget.value))} />
      </label>
      <label class="check">
        <select aria-label="Speed" value={String(speed)} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
          {SPEEDS.map((each) => (
            <option key={each} value={String(each)}>
              {each.toLocaleString()} cycles/s
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}
