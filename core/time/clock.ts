/** Epoch milliseconds. Handed in, so that core stays free of clocks and tests can scale time. */
export type Clock = () => number;

let lastMs = Number.NaN;
let lastText = '';

/** ISO 8601 UTC with milliseconds. Remembers the last one: events of one millisecond share it. */
export function iso(ms: number): string {
  if (ms !== lastMs) {
    lastText = new Date(ms).toISOString();
    lastMs = ms;
  }
  return lastText;
}
