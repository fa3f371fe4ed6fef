import { iso } from '@tributary/core';

const NAME = /^(\d{4}-\d{2}-\d{2})-(\d{6})\.ndjson$/;

/** The UTC day of a moment (epoch ms), `YYYY-MM-DD`. */
export function dayOf(ms: number): string {
  return iso(ms).slice(0, 10);
}

/** Names sort in the order of writing. `n` starts at 1 every day. */
export function fileName(day: string, n: number): string {
  return `${day}-${String(n).padStart(6, '0')}.ndjson`;
}

/** The number of a day's last file among the names in a folder; 1 when there is none. */
export function latestNumber(names: readonly string[], day: string): number {
  return names.reduce((latest, name) => {
    const match = NAME.exec(name);
    return match?.[1] === day ? Math.max(latest, Number(match[2])) : latest;
  }, 1);
}
