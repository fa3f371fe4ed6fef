import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type InjectClient, openTestGateway, type TestGateway } from '../../helpers/gateway.ts';

let test: TestGateway;
let owner: InjectClient;
beforeAll(async () => {
  test = await openTestGateway();
});
afterAll(() => test.close());
beforeEach(async () => {
  owner = await test.openWorkspace();
});

interface Transformation {
  readonly id: string;
  readonly status: string;
  readonly test_error: string | null;
}

const event = (properties: object) => ({ type: 'track', event: 'Paid', user_id: 'u', properties });
const doubling = {
  name: 'Double',
  source_code: 'function transform(event) { event.properties.n *= 2; return event; }',
  test_input: event({ n: 2 }),
  test_output: event({ n: 4 }),
};
const create = (body: object = doubling) => owner.ok<Transformation>('POST', './event-transformations', body);

describe('the metrics of a transformation', () => {
  const hour = () => Math.floor(Date.now() / 3_600_000) * 3_600_000;
  const nothing = { runs: 0, errors: 0, dropped: 0, fanned_out: 0, outputs: 0, p50_ms: null, p99_ms: null };

  it('are the totals of its runs in the requested hours', async () => {
    const { id } = await create();
    const metrics = (query = '') => owner.ok('GET', `./event-transformations/${id}/metrics${query}`);
    expect(await metrics()).toEqual({ transformation_id: id, hours: 24, ...nothing, hourly: [] });
    const tally = (counts: Readonly<Record<string, number>>, hoursAgo: number) => ({
      workspaceId: owner.workspaceId ?? '',
      transformationId: id,
      hour: hour() - hoursAgo * 3_600_000,
      counts,
    });
    await test.dependencies.counters.addRuns([
      tally({ runs: 100, errors: 2, dropped: 3, fanned_out: 4, outputs: 105, ms10: 95, ms20: 5 }, 0),
      tally({ runs: 7, outputs: 7, ms10: 7 }, 30),
    ]);
    const now = {
      runs: 100,
      errors: 2,
      dropped: 3,
      fanned_out: 4,
      outputs: 105,
      p50_ms: 0.0577,
      p99_ms: 3.33,
    };
    const hourly = [{ hour_bucket: new Date(hour()).toISOString(), ...now }];
    expect(await metrics()).toEqual({ transformation_id: id, hours: 24, ...now, hourly });
    expect(await metrics('?hours=48')).toMatchObject({
      hours: 48,
      runs: 107,
      hourly: [
        { hour_bucket: new Date(hour() - 30 * 3_600_000).toISOString(), runs: 7, errors: 0, p50_ms: 0.0577 },
        ...hourly,
      ],
    });
    const { id: idle } = await create();
    const several = `./event-transformations/metrics?ids=${idle},${randomUUID()},${id.toUpperCase()}`;
    expect(await owner.ok('GET', several)).toEqual([
      { transformation_id: idle, hours: 24, ...nothing, hourly: [] },
      await metrics(),
    ]);
    expect((await owner.call('GET', './event-transformations/metrics?ids=x')).status).toBe(400);
    expect((await owner.call('GET', './event-transformations/metrics')).status).toBe(400);
    const other = await test.openWorkspace('other@example.com');
    expect((await other.call('GET', `./event-transformations/${id}/metrics`)).status).toBe(404);
  });

  it.each(['0', '721', 'x', ''])('are 400 for hours=%s', async (hours) => {
    const { id } = await create();
    const answer = await owner.call('GET', `./event-transformations/${id}/metrics?hours=${hours}`);
    expect(answer).toMatchObject({ status: 400, body: { details: [{ path: 'hours' }] } });
  });
});
