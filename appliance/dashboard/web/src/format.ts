/** Numbers as people read them: three significant digits and a unit. */

const BYTES = ["B", "kB", "MB", "GB", "TB", "PB"];
const COUNTS = ["", "k", "M", "G", "T", "P"];

function scaled(value: number, units: readonly string[], gap: string): string {
  let power = 0;
  let size = Math.abs(value);
  while (size >= 999.5 && power < units.length - 1) {
    size /= 1000;
    power += 1;
  }
  const digits = power === 0 && Number.isInteger(size) ? 0 : size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  const unit = units[power] ?? "";
  return `${value < 0 ? "-" : ""}${size.toFixed(digits)}${unit ? gap + unit : ""}`;
}

export const bytes = (value: number): string => scaled(value, BYTES, " ");

export const rate = (value: number): string => `${bytes(value)}/s`;

export const count = (value: number): string => scaled(value, COUNTS, " ");

/** A share from 0 to 1. */
export function percent(share: number): string {
  const value = share * 100;
  if (value === 0 || Math.abs(value) >= 9.95) return `${value.toFixed(0)} %`;
  if (Math.abs(value) >= 0.095) return `${value.toFixed(1)} %`;
  return `${Number(value.toPrecision(1))} %`;
}

/** A duration in seconds; from microseconds to days, two units at most. */
export function duration(seconds: number): string {
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds === 0) return "0 s";
  if (seconds < 1e-3) return `${trimmed(seconds * 1e6)} us`;
  if (seconds < 1) return `${trimmed(seconds * 1e3)} ms`;
  if (seconds < 60) return `${trimmed(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

function trimmed(value: number): string {
  return value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

/** A point in time, in the viewer's time zone. */
export function clock(at: string | number | Date): string {
  const date = new Date(at);
  const today = new Date().toDateString() === date.toDateString();
  const time = date.toLocaleTimeString(undefined, { hour12: false });
  return today ? time : `${date.toLocaleDateString()} ${time}`;
}

export const secondsSince = (at: string, now: number): number => (now - Date.parse(at)) / 1000;

/** A value to four significant digits, for losses and learning rates. */
export function figure(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e5 ? Number(value.toPrecision(4)).toString() : value.toExponential(2);
}
