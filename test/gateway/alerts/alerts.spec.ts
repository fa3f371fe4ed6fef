import { beforeAll, describe, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { suiteGateway } from '../suite-gateway.ts';

const HOUR = 3_600_000;

const test = await suiteGateway();
let owner: Client;
beforeAll(async () => {
  owner = await test.openWorkspace();
  await countPastWeeks();
});

interface Alert {
  readonly id: string;
  readonly name: string;
  readonly version: number;
}

const silence = { name: 'Quiet', watch: { kind: 'silence', minutes: 45 } };
const make = (body: object = silence) => owner.ok<Alert>('POST', './alerts', body);
const refusals = async (body: object) => {
  const { status, body: answer } = await owner.call<{ details: { path: string; message: string }[] }>(
    'POST',
    './alerts',
    { name: 'x', ...body },
  );
  expect(status).toBe(400);
  return answer.details.map(({ path, message }) => `${path} ${message}`);
};

/** Four weeks with 100 orders an hour, but for one hour three days ago. */
async function countPastWeeks() {
  const hour = Math.floor(test.clock.now() / HOUR) * HOUR;
  // Half past the hour, so that it does not change during the test.
  test.clock.pass(hour + HOUR / 2 - test.clock.now());
  const increments = Array.from({ length: 30 * 24 }, (_, ago) => ({
    workspaceId: String(owner.workspaceId),
    environment: 'production' as const,
    source: '',
    key: '',
    type: 'track' as const,
    name: 'Order Placed',
    rule: '',
    destination: '',
    minute: hour - ago * HOUR,
    measures: 'received+accepted',
    count: ago === 72 ? 10 : 100,
    samples: [],
  }));
  await test.dependencies.counters.apply({
    topic: 'funnel.counts',
    partition: 0,
    from: 0,
    to: 1,
    increments,
  });
}

describe('an alert', () => {
  it('has the fields of its kind, with defaults', async () => {
    const { id } = await owner.destination({ type: 'webhook', settings: { url: 'https://crm.example.com' } });
    const source = await owner.ok<{ id: string }>('POST', './sources', { name: 's', type: 'web' });
    const events = { source_id: source.id, event_type: 'page', event_name: 'Home' };
    for (const [watch, stored] of [
      [{ kind: 'volume', ...events, direction: 'above', tolerance: 3, weeks: 2, minimum: 5 }, {}],
      [{ kind: 'silence', ...events }, { minutes: 30 }],
      [
        { kind: 'violations', ...events },
        { minutes: 30, share: 0.05, minimum: 20 },
      ],
      [
        { kind: 'delivery_rate', destination_id: id },
        { minutes: 30, share: 0.9, minimum: 20 },
      ],
      [{ kind: 'backlog' }, { destination_id: null, minutes: 60 }],
    ])
      expect(await make({ name: 'x', email: 'Ops@Example.com', watch })).toMatchObject({
        email: 'ops@example.com',
        watch: { ...watch, ...stored },
      });
  });

  it('is not reported to the destination that it watches', async () => {
    const settings = { url: 'https://crm.example.com' };
    const { id } = await owner.ok<{ id: string }>('POST', './destinations', {
      name: 'd',
      type: 'webhook',
      settings,
    });
    const watch = { kind: 'delivery_rate', destination_id: id };
    expect(await refusals({ watch, destination_id: id.toUpperCase() })).toEqual([
      '/destination_id must be another destination than the watched one',
    ]);
  });
});

describe('a dry run', () => {
  const orders = { kind: 'volume', event_type: 'track', event_name: 'Order Placed' };
  const dryRun = (body: object) =>
    owner.ok<{ changes: { at: string; state: string }[] }>('POST', './alerts/dry-run', body);

  it('states when an alert would have fired and recovered, and with which numbers', async () => {
    const run = await dryRun({ watch: orders });
    expect(run).toMatchObject({
      evaluations: 168,
      unknown: { little_history: 0, few_events: 0, never_counted: 0 },
      quiet: 0,
      changes: [
        { state: 'firing', value: 10, limit: 50, expected: 100 },
        { state: 'ok', value: 100, limit: 75, expected: 100 },
      ],
      state: 'ok',
    });
    const hour = Math.floor(test.clock.now() / HOUR) * HOUR;
    expect(run.changes.map(({ at }) => Date.parse(at))).toEqual([hour - 71 * HOUR, hour - 70 * HOUR]);
  });

  it('applies quiet hours and the tolerated deviation', async () => {
    const days = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];
    const quiet_hours = [{ days, from: '00:00', until: '00:00' }];
    expect(await dryRun({ watch: orders, quiet_hours })).toMatchObject({ quiet: 168, changes: [] });
    expect(await dryRun({ watch: { ...orders, tolerance: 0.95 } })).toMatchObject({ changes: [] });
    expect(await dryRun({ watch: orders, days: 2 })).toMatchObject({ evaluations: 48, changes: [] });
  });

  it('states how much it could not evaluate', async () => {
    const run = await dryRun({ watch: orders, days: 28 });
    expect(run).toMatchObject({ evaluations: 28 * 24 });
    expect(run).toMatchObject({ unknown: { few_events: 0, never_counted: 0 } });
    // The first two weeks have no two weeks before them.
    const { unknown } = run as unknown as { unknown: { little_history: number } };
    expect(unknown.little_history).toBeGreaterThanOrEqual(12 * 24);
    expect(unknown.little_history).toBeLessThan(15 * 24);
    expect(await dryRun({ watch: { kind: 'silence', event_name: 'Never' } })).toMatchObject({
      unknown: { never_counted: 168 },
    });
  });

  it('is refused for an alert on a backlog', async () => {
    expect((await owner.call('POST', './alerts/dry-run', { watch: { kind: 'backlog' } })).status).toBe(400);
  });
});
