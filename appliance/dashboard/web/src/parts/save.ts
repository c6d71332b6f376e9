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
  title: string;
  legend: (value: number) => string;
}

const CELL = 10;
const TOP = 28;

export function saveSvg(map: HeatMap, name: string): void {
  saveBlob(new Blob([heatSvg(map)], { type: "image/svg+xml" }), name);
}

/** A heat map as a file of its own, with title and scale. */
export function heatSvg({ values, most, cells, title, legend }: HeatMap): string {
  const side = cells * CELL;
  const rects = values.map((value, index) => {
    const [x, y] = [(index % cells) * CELL, TOP + Math.floor(index / cells) * CELL];
    return `<rect x="${x}" y="${y}" width="${CELL}" height="${CELL}" fill="${heat(value / most)}"/>`;
  });
  const text = (x: number, y: number, words: string, anchor: string): string =>
    `<text x="${x}" y="${y}" text-anchor="${anchor}" font-family="sans-serif" font-size="13">${escaped(words)}</text>`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${side} ${side + TOP + 24}">`,
    `<rect width="100%" height="100%" fill="white"/>`,
    text(0, 18, title, "start"),
    ...rects,
    text(0, side + TOP + 18, "0 (black)", "start"),
    text(side, side + TOP + 18, `${legend(most)} (bright)`, "end"),
    "</svg>",
  ].join("\n");
}

const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
