/** How wide the window is, for what is laid out otherwise than by style sheets. */

import { signal } from "@preact/signals";

export type Screen = "phone" | "tablet" | "desktop";

export const PHONE = 700;
export const TABLET = 1100;

export const screenOf = (width: number): Screen => (width < PHONE ? "phone" : width < TABLET ? "tablet" : "desktop");

export const screenSize = signal<Screen>(screenOf(window.innerWidth));

window.addEventListener("resize", () => {
  screenSize.value = screenOf(window.innerWidth);
});
