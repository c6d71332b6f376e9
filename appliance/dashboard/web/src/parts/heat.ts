/** Load of each cell of the wafer's picture, from the patterns of a layer step: pure. */

export interface LoadPattern {
  share_of_cycles: number;
  bytes_per_pe: number;
  row_loads: readonly number[];
  column_loads: readonly number[];
}

/** Share of the layer step's clock cycles in which the PEs of a cell work; row by row. */
export function loads(patterns: readonly LoadPattern[], cells: number): number[] {
  const grid = new Array<number>(cells * cells).fill(0);
  for (const { share_of_cycles, row_loads, column_loads } of patterns)
    for (let row = 0; row < cells; row += 1)
      for (let column = 0; column < cells; column += 1)
        grid[row * cells + column] = (grid[row * cells + column] ?? 0) + share_of_cycles * (row_loads[row] ?? 0) * (column_loads[column] ?? 0);
  return grid;
}

/** Bytes that the PEs of a cell hold of the layer step's widest tensor; row by row. */
export function held(patterns: readonly LoadPattern[], cells: number): number[] {
  const widest = patterns.reduce<LoadPattern | undefined>((best, each) => (best && best.bytes_per_pe >= each.bytes_per_pe ? best : each), undefined);
  if (!widest) return new Array<number>(cells * cells).fill(0);
  return Array.from({ length: cells * cells }, (_, index) => {
    const [row, column] = [Math.floor(index / cells), index % cells];
    return widest.bytes_per_pe * (widest.row_loads[row] ?? 0) * (widest.column_loads[column] ?? 0);
  });
}

// Stops of "inferno" (matplotlib, CC0): grows in brightness, also for those who do not see colours.
const STOPS = [
  [0, 0, 4],
  [40, 11, 84],
  [101, 21, 110],
  [159, 42, 99],
  [212, 72, 66],
  [245, 125, 21],
  [250, 193, 39],
  [252, 255, 164],
] as const;

/** Colour of a share from 0 to 1. */
export function heat(share: number): string {
  const place = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1);
  const index = Math.min(Math.floor(place), STOPS.length - 2);
  const [low, high] = [STOPS[index] ?? STOPS[0], STOPS[index + 1] ?? STOPS[0]];
  const mixed = low.map((value, channel) => Math.round(value + (place - index) * ((high[channel] ?? 0) - value)));
  return `rgb(${mixed.join(",")})`;
}
