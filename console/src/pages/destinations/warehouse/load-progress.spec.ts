import { expect, it } from 'vitest';
import { progressOf } from './load-progress.ts';
import type { Load } from './queries.ts';

const ASKED = '2026-03-01T10:00:00.000Z';
const BEFORE = '2026-03-01T09:59:00.000Z';
const AFTER = '2026-03-01T10:00:02.000Z';

const load = (began_at: string | null, rows: Load['rows'] = { tracks: 2, orders: 2 }): Load => ({
  id: 'b',
  status: 'loaded',
  lane: 'live',
  ranges: [],
  rows,
  discards: {},
  samples: [],
  schema_changes: [],
  began_at,
  ended_at: AFTER,
  code: null,
  reason: null,
});
const failure = (last_failed_at: string) =>
  ({ code: 'unavailable', reason: 'no answer', since: BEFORE, last_failed_at }) as const;

it.each([
  ['waits for a load that began before', BEFORE, null, [load(BEFORE)], { state: 'waiting' }],
  ['is not done by the watermark alone', AFTER, null, [load(null)], { state: 'waiting' }],
  [
    'goes on while events from before the click wait',
    BEFORE,
    null,
    [load(AFTER), load(BEFORE)],
    { state: 'loading', rows: 4, loads: 1 },
  ],
  [
    'is done once they are loaded, also if there were none',
    AFTER,
    null,
    [load(AFTER, {})],
    { state: 'done', rows: 0, loads: 1 },
  ],
  ['has not failed by an attempt from before the click', BEFORE, failure(BEFORE), [], { state: 'waiting' }],
  ['has failed by one after it', BEFORE, failure(AFTER), [], { state: 'failed', failure: failure(AFTER) }],
] as const)('a load that was asked for %s', (_what, loaded_until, failed, loads, expected) => {
  expect(progressOf(ASKED, { loaded_until, failure: failed }, loads)).toEqual(expected);
});
