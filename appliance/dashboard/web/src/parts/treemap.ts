/** What is written in the cells of a treemap, so that each one says what it is: pure. */

import type { ModuleTime } from "./modules";

const LETTER = 7;
const PAD = 6;
const LINE = 18;
/** A cell smaller than this, in square pixels, has no room for words. */
const LEAST_AREA = 46 * 26;

export interface Cell {
  /** What is written, line by line. */
  lines: string[];
  isUpright: boolean;
}

/** The name of a module's time, as in `blocks.0 fwd`. */
export const cellName = ({ module, direction }: ModuleTime): string => (direction ? `${module || "model"} ${direction}` : module || "model");

/** The text of a cell: the module over its pass and share (`blocks.0`, `fwd 7.3 %`), or the name alone where one line fits;
 * upright in cells that are tall and narrow. */
export function cellText(time: ModuleTime, share: string, width: number, height: number): Cell {
  const module = time.module || "model";
  const isUpright = height > 1.5 * width && width < (module.length + 2) * LETTER;
  const [along, across] = isUpright ? [height, width] : [width, height];
  const room = Math.floor((along - 2 * PAD) / LETTER);
  if (across < LINE) return { lines: [], isUpright };
  if (across < 2 * LINE + PAD) return { lines: [cellName(time).length <= room ? cellName(time) : fitted(module, room)], isUpright };
  const second = [time.direction, share].filter(Boolean).join(" ");
  return { lines: [fitted(module, room), second.length <= room ? second : time.direction], isUpright };
}

/** A name whole where that fits, else without its first parts, as the last ones tell modules apart, else cut at its end. A
 * number says nothing without the part before it. */
function fitted(name: string, room: number): string {
  let words = name;
  while (words.length > room && /\.(?!\d)/.test(words)) words = words.replace(/^.*?\.(?!\d)/, "");
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
