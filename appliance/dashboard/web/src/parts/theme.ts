/** Light or dark: as the system says, unless the user chose. */

import { computed, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const KEY = "wsc-theme";
const stored = localStorage.getItem(KEY);

export const theme = signal<Theme>(stored === "light" || stored === "dark" ? stored : "system");

const system = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(system.matches);
system.addEventListener("change", () => (systemIsDark.value = system.matches));

/** Whether the page is dark now, whoever decided it. */
export const isDark = computed(() => (theme.value === "system" ? systemIsDark.value : theme.value === "dark"));

const order: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

function show(): void {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
}

export function nextTheme(): void {
  theme.value = order[theme.value];
  localStorage.setItem(KEY, theme.value);
  show();
}

show();
