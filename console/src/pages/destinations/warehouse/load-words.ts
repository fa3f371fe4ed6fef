import type { Status } from '../../../shared/status-badge.tsx';
import type { Load } from './queries.ts';

/** The lane of the events as they arrive. */
const LIVE = 'live';

/** Why loading fails, and what follows. */
export const FAILURE: Readonly<
  Record<NonNullable<Load['code']>, { readonly title: string; readonly hint: string }>
> = {
  unavailable: {
    title: 'The warehouse does not answer',
    hint: 'Events wait in the log, and are loaded once it is back. Nothing has to be done here.',
  },
  refused: {
    title: 'The warehouse refuses the loads',
    hint: 'Settings or rights have to be corrected. Events wait in the log until then.',
  },
  missed: {
    title: 'Events were no longer kept',
    hint: 'They had waited for longer than the log keeps records, and are lost to the warehouse.',
  },
  fault: {
    title: 'Loading fails by an error of Tributary',
    hint: 'Events wait in the log. The log of the processor has the details for an operator.',
  },
};

const LABEL: Readonly<Record<NonNullable<Load['code']>, string>> = {
  unavailable: 'No answer',
  refused: 'Refused',
  missed: 'Events missed',
  fault: 'Error',
};

export function statusOfLoad({ status, code }: Load): Status {
  if (status === 'loaded') return { label: 'Loaded', tone: 'good' };
  if (code === null) return { label: 'Failed', tone: 'bad' };
  return { label: LABEL[code], tone: 'bad', detail: FAILURE[code].title };
}

export function isBackfill({ lane }: Load): boolean {
  return lane !== LIVE;
}

/** The sum of counts by table. An event has a row in up to two tables. */
export function sumOf(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

/** What a discard is of, in words. */
export function placeOf({ table, column }: Pick<Load['samples'][number], 'table' | 'column'>): string {
  if (table === '') return 'the whole event';
  return column === '' ? `${table}: the whole row` : `${table}.${column}`;
}
