/** Epoch milliseconds. Handed in, so that core stays free of clocks and tests can scale time. */
export type Clock = () => number;

export function iso(ms: number): string {
  return new Date(ms).toISOString();
}
