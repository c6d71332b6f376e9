/** What is written in the cells of a treemap, so that each one says what it is: pure. */

import type { ModuleTime } from "./modules";

const LETTER = 7;
const PAD = 6;
const LINE = 18;
/** A cell smaller than this, in square pixels, has no room for words. */
const LEAST_AREA = 46 * 26;

export interface Cell {
  name: string;
  text: string;
  isUpright: boolean;
  /** Whether the share fits below the name. */
  hasShare: boolean;
}

/** The name of a module's time, as in `blocks.0 fwd`. */
export const cellName = ({ module, direction }: ModuleTime): string => (direction ? `${module || "model"} ${direction}` : module || "model");

/** The text of a cell: whole where that fits, else its last parts, which tell modules apart, else cut at its end; upright in
 * cells that are tall and narrow. */
export function cellText(name: string, width: number, height: number): Cell {
  const isUpright = height > 1.5 * width && width < (name.length + 1) * LETTER;
  const [along, across] = isUpright ? [height, width] : [width, height];
  const room = Math.floor((along - 2 * PAD) / LETTER);
  const hasShare = across >= 2 * LINE + PAD;
  return { name, text: across < LINE ? "" : fitted(name, room), isUpright, hasShare };
}

function fitted(name: string, room: number): string {
  let words = name;
  while (words.length > room && words.includes(".")) words = words.slice(words.indexOf(".") + 1);
  if (words.length <= room) return words;
  return room < 3 ? "" : `${words.slice(0, room - 1)}\u2026`;
}

/** Modules whose cells would have no room for words become one, `12 smaller modules`. */
export function withoutSmall(modules: readonly ModuleTime[], area: number): ModuleTime[] {
  const total = modules.reduce((sum, each) => sum + each.seconds, 0);
  const isSmall = (each: ModuleTime): boolean => (each.seconds / total) * area < LEAST_AREA;
  const small = modules.filter(isSmall);
  if (small.length < 2) return [...modules];
  const seconds = small.reduce((sum, each) => sum + each.seconds, 0);
  return [...modules.filter((each) => !isSmall(each)), { module: `${small.length} smaller modules`, direction: "", seconds }];
}
