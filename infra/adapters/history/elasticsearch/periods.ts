const DAY_MS = 24 * 60 * 60 * 1000;

/** Periods that an installation keeps at a time, about: each is an index. */
const PERIODS_KEPT = 60;

/** How many days a period has where none exists yet: one, or more where the retention is long. */
export function periodDaysFor(retentionMs: number): number {
  return Math.max(1, Math.ceil(retentionMs / DAY_MS / PERIODS_KEPT));
}

/** The name of the period that a time is in, e.g. `tributary-history-1d-2026.11.22`: an alias of its one index. */
export function periodOf(at: number, days: number, base: string): string {
  const length = days * DAY_MS;
  const start = new Date(Math.floor(at / length) * length);
  return `${base}-${days}d-${start.toISOString().slice(0, -'T00:00:00.000Z'.length).replaceAll('-', '.')}`;
}

/** How many days the periods have that an index of the same base belongs to; undefined for a foreign index. */
export function periodDaysOf(index: string, base: string): number | undefined {
  const days = Number(/^-(\d{1,4})d-/.exec(index.slice(base.length))?.[1] ?? Number.NaN);
  return index.startsWith(base) && days >= 1 ? days : undefined;
}
