/** Pictures as files. */

import { heat } from "./heat";

export function saveBlob(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

export function savePng(canvas: HTMLCanvasElement, name: string): void {
  canvas.toBlob((blob) => blob && saveBlob(blob, name), "image/png");
}

interface HeatMap {
  values: readonly number[];
  most: number;
  cells: number;
  /** Height of the grid over its width. */
  aspect: number;
  title: string;
  legend: (value: number) => string;
}

const CELL = 10;
const TOP = 28;

export function saveSvg(map: HeatMap, name: string): void {
  saveBlob(new Blob([heatSvg(map)], { type: "image/svg+xml" }), name);
}

/** A heat map as a file of its own, with title and scale. */
export function heatSvg({ values, most, cells, aspect, title, legend }: HeatMap): string {
  const side = cells * CELL;
  const tall = CELL * aspect;
  const bottom = cells * tall;
  const rects = values.map((value, index) => {
    const [x, y] = [(index % cells) * CELL, TOP + Math.floor(index / cells) * tall];
    return `<rect x="${x}" y="${y}" width="${CELL}" height="${tall}" fill="${heat(value / most)}"/>`;
  });
  const text = (x: number, y: number, words: string, anchor: string): string =>
    `<text x="${x}" y="${y}" text-anchor="${anchor}" font-family="sans-serif" font-size="13">${escaped(words)}</text>`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${side} ${bottom + TOP + 24}">`,
    `<rect width="100%" height="100%" fill="white"/>`,
    text(0, 18, title, "start"),
    ...rects,
    text(0, bottom + TOP + 18, "0 (black)", "start"),
    text(side, bottom + TOP + 18, `${legend(most)} (bright)`, "end"),
    "</svg>",
  ].join("\n");
}

const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
