/** Plain search as people expect it: every word must occur, case does not matter. */
export function matches(text: string, wanted: string): boolean {
  const lowered = text.toLowerCase();
  return wanted
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lowered.includes(word));
}
