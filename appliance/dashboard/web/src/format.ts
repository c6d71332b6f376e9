/**
 * Numbers as people read them: three significant digits at most, and a unit.
 *
 * The twin of `appliance/core/quantities.py`: both are held to the cases of `quantities.json`.
 */

const BYTES = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
const COUNTS = ["", "k", "M", "B", "T"];
const PREFIXES = ["", "k", "M", "G", "T", "P", "E", "Z", "Y"];

/** From here on three digits would read 1000. */
const NEXT_UNIT = 999.5;
/** Smaller figures are written with an exponent. */
const LEAST = 1e-3;

const digits = (value: number): string => String(Number(value.toPrecision(3)));

function scaled(value: number, units: readonly string[]): string {
  if (!Number.isFinite(value)) return "-";
  let power = 0;
  let left = Math.abs(value);
  while (left >= NEXT_UNIT && power < units.length - 1) {
    left /= 1000;
    power += 1;
  }
  const text = left < NEXT_UNIT ? digits(left) : Math.round(left).toLocaleString("en-US");
  return `${value < 0 ? "-" : ""}${text} ${units[power] ?? ""}`.trimEnd();
}

/** Bytes, as in `44 GB`; a kilobyte has 1,000 of them. */
export const size = (bytes: number): string => scaled(bytes, BYTES);

export const rate = (bytesPerSecond: number): string => `${size(bytesPerSecond)}/s`;

/** How many there are, as in `1.32 B` (billion). */
export const count = (value: number): string => scaled(value, COUNTS);

/** A value with a unit and its prefix, as in `2.64 ZFLOP`. */
export const quantity = (value: number, unit: string): string =>
  scaled(
    value,
    PREFIXES.map((prefix) => prefix + unit),
  );

/** A number without unit: a loss, a learning rate, samples per second. */
export function figure(value: number): string {
  const magnitude = Math.abs(value);
  if (magnitude === 0 || magnitude >= LEAST || !Number.isFinite(value)) return count(value);
  const [mantissa, exponent] = magnitude.toExponential(2).split("e");
  return `${value < 0 ? "-" : ""}${Number(mantissa)}e${Number(exponent)}`;
}

/** A share from 0 to 1. */
export const percent = (share: number): string => `${figure(100 * share)} %`;

/** A duration in seconds, from microseconds to days; from a minute on in two units at most. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "-";
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds === 0) return "0 s";
  if (seconds < 0.9995e-3) return `${digits(seconds * 1e6)} \u00b5s`;
  if (seconds < 0.9995) return `${digits(seconds * 1e3)} ms`;
  if (seconds < 59.95) return `${digits(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return two(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86400) return two(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  return two(Math.floor(whole / 86400), "d", Math.floor((whole % 86400) / 3600), "h");
}

const two = (large: number, unit: string, small: number, smallUnit: string): string =>
  `${large} ${unit}${small ? ` ${small} ${smallUnit}` : ""}`;

/** Year, month and day, which everyone reads alike, unlike 11/12. */
function calendarDay(date: Date): string {
  const [month, day] = [date.getMonth() + 1, date.getDate()].map((each) => String(each).padStart(2, "0"));
  return `${date.getFullYear()}-${month}-${day}`;
}

/** A point in time, in the viewer's time zone. */
export function clock(at: string | number | Date): string {
  const date = new Date(at);
  const today = new Date().toDateString() === date.toDateString();
  const time = date.toLocaleTimeString(undefined, { hour12: false });
  return today ? time : `${calendarDay(date)} ${time}`;
}

export const secondsSince = (at: string, now: number): number => (now - Date.parse(at)) / 1000;
