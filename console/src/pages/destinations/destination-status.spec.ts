import { expect, it } from 'vitest';
import { needsAttention, statusOf, switchedText, worstFirst } from './destination-status.ts';
import type { DestinationHealth } from './queries.ts';

const health = (fields: Partial<DestinationHealth>): DestinationHealth => ({
  id: 'd',
  active: true,
  warehouse: false,
  at: null,
  state: 'healthy',
  failed_share: 0,
  retrying: 0,
  paused_because: null,
  notice: { state: 'well', because: null, since: null },
  delivered_per_second: 1,
  failed_per_second: 0,
  throttled_per_second: 0,
  pace_per_second: null,
  put_off_per_second: 0,
  p50_ms: 3,
  p99_ms: 9,
  waiting: 0,
  under_way: 0,
  oldest_waiting_ms: null,
  circuit: 'closed',
  circuit_since: null,
  last_delivered_at: null,
  last_errors: [],
  ...fields,
});

const gone = { reason: 'gone', at: '2026-03-10T12:00:00.000Z' } as const;

it.each([
  [
    'all are retried',
    { state: 'failing', failed_share: 1, retrying: 4 },
    'Failing: 100 %',
    '100 % of the last attempts failed. 4 deliveries wait for the next attempt.',
  ],
  [
    'the circuit is open',
    { state: 'failing', failed_share: 0.9996, circuit: 'open' },
    'Failing: > 99.9 %',
    '> 99.9 % of the last attempts failed. Its circuit is open: deliveries wait before it is tried again.',
  ],
  [
    'the circuit is open without an attempt',
    { state: 'failing', failed_share: null, circuit: 'open' },
    'Failing',
    'It failed so often that hardly anything is sent to it. Its circuit is open: deliveries wait before it is tried again.',
  ],
  [
    'all wait for long',
    { state: 'retrying', failed_share: null, retrying: 1 },
    'Retrying',
    'Nothing arrived in the last minutes. 1 delivery waits for the next attempt.',
  ],
  [
    'it asks to wait',
    { state: 'retrying', throttled_per_second: 3 },
    'Retrying',
    'It refuses most requests for their rate.',
  ],
  [
    'a backlog',
    { state: 'behind', waiting: 12, oldest_waiting_ms: 180_000 },
    'Behind',
    'Deliveries wait for their turn: 12, oldest 3 min.',
  ],
  [
    'deferred',
    { state: 'behind', put_off_per_second: 9 },
    'Behind',
    'More deliveries are deferred than made.',
  ],
  [
    'the first request takes long',
    { state: 'behind', under_way: 1, delivered_per_second: 0 },
    'Behind',
    '1 delivery is under way, and none has arrived yet.',
  ],
  [
    'paused, whatever failed before',
    { state: 'paused', failed_share: 1 },
    'Paused',
    'Deliveries wait until it is resumed.',
  ],
  [
    'gone',
    { state: 'paused', paused_because: gone },
    'Paused',
    'It answered 410 Gone. Deliveries wait until it is resumed.',
  ],
  [
    'at rest',
    { state: 'no_traffic', failed_share: null },
    'No traffic',
    'Nothing was sent to it in the last minutes.',
  ],
  [
    'some wait since an outage',
    { state: 'healthy', failed_share: 0.002, retrying: 7 },
    'Healthy',
    '99.8 % of the last attempts arrived. 7 deliveries wait for the next attempt.',
  ],
  [
    'a warehouse without a load in the last minutes',
    { warehouse: true, state: 'no_traffic' },
    'Idle',
    'No load was due in the last minutes.',
  ],
  [
    'a warehouse that is down',
    { warehouse: true, state: 'failing', failed_share: 1 },
    'Failing',
    'Loads fail. Events wait in the log.',
  ],
  [
    'at its pace',
    { state: 'healthy', pace_per_second: 5, throttled_per_second: 0.2 },
    'Healthy',
    'All attempts of the last minutes arrived. It takes about 5/s requests: deliveries wait for their turn.',
  ],
] as const)(
  'a destination was shown as healthy or well beside its failures: %s',
  (_when, fields, label, detail) => {
    expect(statusOf(health(fields))).toMatchObject({ label, detail });
  },
);

it('those in trouble come first, also one that is paused as it is gone', () => {
  const [fine, failing, paused, left] = [
    health({ id: 'fine' }),
    health({ id: 'failing', state: 'failing' }),
    health({ id: 'paused', state: 'paused' }),
    health({ id: 'left', state: 'paused', paused_because: gone }),
  ];
  expect(worstFirst([fine, paused, left, failing]).map(({ id }) => id)).toEqual([
    'failing',
    'left',
    'paused',
    'fine',
  ]);
  expect([fine, failing, paused, left].filter(needsAttention).map(({ id }) => id)).toEqual([
    'failing',
    'left',
  ]);
});

it.each([
  [{ enabled: true, paused: true }, 'Enabled, and still paused: deliveries wait.'],
  [{ enabled: true, paused: false }, 'Enabled. Events from now on are delivered to it.'],
  [{ enabled: true, paused: false }, 'Loading goes on where it ended.', true],
  [{ enabled: false, paused: false }, 'Disabled. Nothing is loaded; events wait in the log.', true],
])(
  'a paused destination was said to receive again once it was enabled',
  (after, text, isWarehouse = false) => {
    expect(switchedText({ ...after, enabled: false }, after, isWarehouse)).toBe(text);
  },
);
