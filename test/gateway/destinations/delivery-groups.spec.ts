import { randomUUID } from 'node:crypto';
import { type Delivery, type HistoryEntry, outcomeOfEntry } from '@tributary/core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { deadDelivery, type Outcome } from '../../helpers/dead-delivery.ts';
import { type InjectClient, openTestGateway, type TestGateway } from '../../helpers/gateway.ts';

let test: TestGateway;
let owner: InjectClient;
let destinationId: string;
let ruleId: string;
beforeAll(async () => {
  test = await openTestGateway();
});
afterAll(() => test.close());
beforeEach(async () => {
  owner = await test.openWorkspace();
  destinationId = await create('destinations', { name: 'F', type: 'ndjson', settings: { folder: 'out' } });
  ruleId = await create('event-forwarding-rules', { name: 'All', destination_id: destinationId });
});

async function create(resource: string, body: object): Promise<string> {
  return (await owner.ok<{ id: string }>('POST', `./${resource}`, body)).id;
}

/** Within the retention of history. */
let received = Date.now() - 6 * 3_600_000;

/** An outcome as written by the history stage. */
async function happened(fields: Outcome = {}, about: Partial<Delivery> = {}): Promise<Delivery> {
  const entry = entryOf(fields, about);
  await test.dependencies.history.put([entry]);
  return outcomeOfEntry(entry).delivery as Delivery;
}

/** A second after the previous one. */
function entryOf(fields: Outcome = {}, about: Partial<Delivery> = {}): HistoryEntry {
  received += 1_000;
  const of = { workspace_id: String(owner.workspaceId), destination_id: destinationId, rule_id: ruleId };
  return deadDelivery(received, fields, { ...of, ...about });
}

describe('groups of deliveries with the same failure', () => {
  interface Group {
    readonly group: string;
    readonly deliveries: number;
    readonly failure: string;
  }
  interface Redriven {
    readonly redriven: number;
    readonly more: boolean;
    readonly cursor: string | null;
  }
  const groups = async (query = '') =>
    (await owner.ok<{ groups: readonly Group[] }>('GET', `./deliveries/groups${query}`)).groups;
  const answered = (status: number) => {
    const at = new Date(received).toISOString();
    return {
      attempts: [{ at, outcome: 'dead' as const, reason: `answered ${status}`, status, duration_ms: 1 }],
    };
  };

  it('have counts by status, destination, rule, cause and failure, with the oldest and an example', async () => {
    const refused = { reason: 'answered 400' };
    const first = await happened(refused, answered(400));
    await happened(refused, answered(400));
    const last = await happened(refused, answered(400));
    await happened({ reason: 'user 17 is unknown', cause: 'transformation' });
    await happened({ reason: 'user 4711 is unknown', cause: 'transformation' });
    await happened({ status: 'retrying', reason: 'timed out', cause: undefined as never });
    await happened({ status: 'delivered' });
    await happened({ status: 'discarded' });
    expect(await groups()).toEqual([
      {
        group: expect.stringMatching(/^[\w-]{22}$/),
        status: 'dead',
        destination_id: destinationId,
        rule_id: ruleId,
        cause: 'destination',
        response_status: 400,
        failure: 'answered 400',
        deliveries: 3,
        oldest_at: first.event.received_at,
        newest_at: last.event.received_at,
        newest_id: last.id,
      },
      expect.objectContaining({ failure: 'user … is unknown', cause: 'transformation', deliveries: 2 }),
      expect.objectContaining({ status: 'retrying', failure: 'timed out', cause: null, deliveries: 1 }),
    ]);
    expect(await groups('?status=retrying')).toHaveLength(1);
    expect(await groups('?cause=transformation&status=dead')).toHaveLength(1);
    expect(await groups(`?destination_id=${randomUUID()}`)).toEqual([]);
    expect(await groups(`?rule_id=${ruleId.toUpperCase()}`)).toHaveLength(3);
    expect(await owner.ok('GET', './deliveries/groups?limit=2')).toMatchObject({ more: true });
    const other = await test.openWorkspace('other@example.com');
    expect(await other.ok('GET', './deliveries/groups')).toEqual({ groups: [], more: false });
  });

  it('list, redrive and discard only their own deliveries, which then leave the group', async () => {
    for (let n = 0; n < 3; n++) await happened({ reason: 'answered 400' }, answered(400));
    for (let n = 0; n < 2; n++) await happened({ reason: 'answered 422' }, answered(422));
    const [many, few] = await groups();
    expect(await owner.ok('GET', `./deliveries?group=${many?.group}`)).toHaveLength(3);
    expect(await owner.ok('GET', `./deliveries?group=${many?.group}&status=retrying`)).toEqual([]);
    const redriven = await owner.ok<Redriven>('POST', './deliveries/redrive', { group: few?.group });
    expect(redriven).toEqual({ redriven: 2, more: false, cursor: null });
    const discarded = await owner.ok('POST', `./deliveries/discard?group=${many?.group}`);
    expect(discarded).toEqual({ discarded: 3, more: false, cursor: null });
  });

  it.each(['group=x', 'group='])('refuse the query %s instead of matching every delivery', async (query) => {
    expect((await owner.call('POST', `./deliveries/discard?${query}`)).status).toBe(400);
    expect((await owner.call('GET', `./deliveries?${query}`)).status).toBe(400);
  });
});
