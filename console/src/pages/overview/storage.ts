import type { components } from '../../api/schema.gen.ts';

export type Storage = components['schemas']['WorkspaceStorage'];

/** A budget is shown from this part of it on. */
const SHOWN_FROM = 0.8;

export interface StorageWarning {
  readonly isOver: boolean;
  readonly title: string;
  readonly text: string;
}

const OVER: Readonly<Record<NonNullable<Storage['over']>, string>> = {
  bytes_per_hour: 'The budget of bytes written in this hour is used up',
  bytes_held: 'The budget of bytes in the log is used up',
  organization_bytes_per_hour: 'The budget of bytes written for its organization in this hour is used up',
  organization_bytes_held: 'The budget of bytes of its organization in the log is used up',
  disk_share: 'The disk is nearly full, and the organization has more than its share',
};

/** A line about the budgets of a workspace; undefined while less than 80 % of each is used. */
export function storageWarning({
  state,
  over,
  bytes_per_hour,
  bytes_held,
}: Storage): StorageWarning | undefined {
  if (over !== null)
    return {
      isOver: true,
      title: OVER[over],
      text:
        state === 'refuse'
          ? 'Events are answered 429. Those received before are dead deliveries of the cause over_budget: redrive them within the budget.'
          : 'Events are accepted and not delivered: they are dead deliveries of the cause over_budget. Redrive them within the budget.',
    };
  const nearest = [
    { ...bytes_per_hour, what: 'bytes written in an hour' },
    { ...bytes_held, what: 'bytes in the log' },
  ].find(({ used, limit }) => limit !== null && used >= limit * SHOWN_FROM);
  if (nearest === undefined || nearest.limit === null) return undefined;
  const percent = Math.floor((100 * nearest.used) / nearest.limit);
  return {
    isOver: false,
    title: `${percent} % of the budget of ${nearest.what} is used`,
    text: `Beyond it events are answered 429: ${bytesText(nearest.used)} of ${bytesText(nearest.limit)}.`,
  };
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

export function bytesText(bytes: number): string {
  const unit = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  const value = bytes / 2 ** (10 * unit);
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}
