/** Which colours the pages have: a sign and a word, changed by a press. */

import type { JSX } from "preact";
import { nextTheme, type Theme, theme } from "./theme";

const WORDS: Record<Theme, string> = { system: "System", light: "Light", dark: "Dark" };

export function ThemeSwitch(): JSX.Element {
  const chosen = theme.value;
  const words = WORDS[chosen];
  return (
    <button class="plain theme" onClick={nextTheme} title={`Colours: ${words.toLowerCase()}. Press to change.`}>
      <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.5">
        <Sign of={chosen} />
      </svg>
      <span class="unseen">Colours: </span>
      {words}
    </button>
  );
}

const RAYS = [0, 45, 90, 135, 180, 225, 270, 315];

function Sign({ of }: { of: Theme }): JSX.Element {
  if (of === "dark") return <path d="M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5Z" />;
  if (of === "system")
    return (
      <>
        <circle cx="8" cy="8" r="5.5" />
        <path d="M8 2.5a5.5 5.5 0 0 1 0 11Z" fill="currentColor" />
      </>
    );
  return (
    <>
      <circle cx="8" cy="8" r="3" />
      {RAYS.map((angle) => (
        <line key={angle} x1="8" y1="1" x2="8" y2="2.8" transform={`rotate(${angle} 8 8)`} />
      ))}
    </>
  );
}
