import { randomUUID } from 'node:crypto';
import {
  type Delivery,
  HEADER,
  type HistoryEntry,
  historyEntryOfOutcome,
  type LogEntry,
  outcomeOfEntry,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { deadDelivery, type Outcome } from '../../helpers/dead-delivery.ts';
import { refusedFor } from '../../helpers/gateway.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
let owner: Client;
let destinationId: string;
let ruleId: string;
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

interface Redriven {
  readonly redriven: number;
  readonly more: boolean;
  readonly cursor: string | null;
}

interface Listed {
  readonly id: string;
}

describe('a delivery', () => {
  it('is shown with every attempt, in the detail with its event', async () => {
    const { id, created_at, message_id, event } = await happened();
    const listed = {
      id,
      status: 'dead',
      environment: 'production',
      destination_id: destinationId,
      rule_id: ruleId,
      message_id,
      replay_id: null,
      idempotency_key: id,
      reason: 'gone',
      cause: 'destination',
      attempts: [
        {
          at: created_at,
          outcome: 'dead',
          throttled: false,
          reason: 'gone',
          status: 410,
          response: null,
          duration_ms: 12,
        },
      ],
      created_at,
      updated_at: created_at,
      next_attempt_at: null,
    };
    expect(await owner.ok('GET', './deliveries')).toEqual([listed]);
    expect(await owner.ok('GET', `./deliveries/${id}`)).toEqual({ ...listed, event });
  });

  it('is listed newest first, narrowed and paged', async () => {
    const elsewhere = randomUUID();
    const { cause, ...none } = { cause: undefined };
    const dead = await happened();
    const retrying = await happened({
      ...none,
      status: 'retrying',
      next_attempt_at: '2026-01-02T00:00:00.000Z',
    });
    const other = await happened({}, { destination_id: elsewhere });
    const ids = async (query: string) =>
      (await owner.ok<Listed[]>('GET', `./deliveries${query}`)).map(({ id }) => id);
    expect(await ids('')).toEqual([other.id, retrying.id, dead.id]);
    expect(await ids('?status=dead')).toEqual([other.id, dead.id]);
    expect(await ids('?status=delivered')).toEqual([]);
    expect(await ids(`?status=dead&destination_id=${elsewhere.toUpperCase()}`)).toEqual([other.id]);
    const pages = await owner.allPages('./deliveries?limit=2');
    expect(pages[1]).toMatchObject([{ id: dead.id }]);
  });

  it('is listed by rule, cause, reason and time', async () => {
    const rule = randomUUID();
    const gone = await happened();
    const other = await happened({ reason: 'answered 422', cause: 'expired' }, { rule_id: rule });
    const ids = async (query: string) =>
      (await owner.ok<Listed[]>('GET', `./deliveries?${query}`)).map(({ id }) => id);
    expect(await ids(`rule_id=${rule}`)).toEqual([other.id]);
    expect(await ids('cause=expired&status=dead')).toEqual([other.id]);
    expect(await ids('reason=GON')).toEqual([gone.id]);
    expect(await ids('reason=nothing')).toEqual([]);
    expect(await ids(`since=${other.event.received_at}`)).toEqual([other.id]);
    expect(await ids(`until=${other.event.received_at}`)).toEqual([gone.id]);
  });

  it('narrowed by a reason, a page that is not the last leads on', async () => {
    const rare = await happened({ reason: 'rare' });
    await test.dependencies.history.put(Array.from({ length: 2_100 }, () => entryOf()));
    const pages = await owner.allPages('./deliveries?reason=rare');
    expect(pages).toMatchObject([[], [{ id: rare.id }]]);
  });

  it('a page of the list read the events that it does not show', async () => {
    const { id } = await happened();
    const page = await test.dependencies.history.list({
      kind: 'delivery',
      workspaceId: String(owner.workspaceId),
      limit: 1,
    });
    expect(JSON.stringify(page)).not.toContain('Paid');
    expect(await owner.ok('GET', `./deliveries/${id}`)).toMatchObject({ event: { event: 'Paid' } });
  });
});

describe('a redrive', () => {
  /** Entries appended to a topic while `work` ran. */
  async function appended(topic: string, work: () => Promise<void>): Promise<LogEntry[]> {
    const { log } = test.dependencies;
    const partitions = [...Array(log.topics.get(topic)?.partitions ?? 0).keys()];
    const ends = await Promise.all(partitions.map((partition) => log.end(topic, partition)));
    await work();
    const read = await Promise.all(
      partitions.map((partition) => log.read(topic, partition, ends[partition] ?? 0)),
    );
    return read.flatMap(({ entries }) => entries);
  }

  const redrive = (id: string) => owner.call('POST', `./deliveries/${id}/redrive`);

  it('sends a dead delivery again and shows it as retrying', async () => {
    const { id, attempts } = await happened();
    let outcomes: LogEntry[] = [];
    const deliveries = await appended(TOPIC.deliveries, async () => {
      outcomes = await appended(TOPIC.outcomes, async () => {
        expect(await redrive(id)).toMatchObject({ status: 202, body: { redriven: 1 } });
      });
    });
    expect(deliveries.map(({ value }) => JSON.parse(value))).toMatchObject([{ id, attempts, redrives: 1 }]);
    expect(outcomes.map(({ value }) => JSON.parse(value))).toMatchObject([
      { status: 'retrying', delivery: { id, redrives: 1 } },
    ]);
  });

  it('transforms again what its transformation failed', async () => {
    const { id, event } = await happened({ cause: 'transformation' });
    const entries = await appended(TOPIC.eventsSlow, async () => {
      expect((await redrive(id)).status).toBe(202);
    });
    expect(entries.map(({ value }) => JSON.parse(value))).toEqual([event]);
    expect(entries[0]?.headers).toMatchObject({ rules: ruleId, redrives: '1' });
  });

  it('keeps the idempotency key of a replay whose transformation failed, and shows it', async () => {
    const [replay, idempotency_key] = [randomUUID(), randomUUID()];
    const { id } = await happened({ cause: 'transformation' }, { replay, idempotency_key });
    expect(await owner.ok('GET', `./deliveries/${id}`)).toMatchObject({ replay_id: replay, idempotency_key });
    const entries = await appended(TOPIC.eventsSlow, async () => {
      expect((await redrive(id)).status).toBe(202);
    });
    expect(entries[0]?.headers).toMatchObject({ replay, 'replay-ids': 'first' });
  });

  it('is for dead ones that can arrive', async () => {
    const retrying = await happened({ status: 'retrying' });
    expect(await redrive(retrying.id)).toMatchObject({
      status: 409,
      body: { error: 'conflict', reason: 'not_dead', causes: [] },
    });
    const nowhere = await happened({}, { destination_id: randomUUID() });
    expect((await redrive(nowhere.id)).status).toBe(409);
  });

  it('includes all dead ones of a destination, by query or body', async () => {
    const other = await create('destinations', { name: 'G', type: 'ndjson', settings: { folder: 'g' } });
    await happened();
    await happened();
    await happened({ status: 'retrying' });
    await happened({}, { destination_id: other });
    const all = (query: string, body?: object) => owner.call('POST', `./deliveries/redrive${query}`, body);
    const entries = await appended(TOPIC.deliveries, async () => {
      expect(await all('', { destination_id: other, status: 'dead' })).toMatchObject({
        status: 202,
        body: { redriven: 1, more: false },
      });
      expect(await all(`?destination_id=${destinationId}`)).toMatchObject({ body: { redriven: 2 } });
      await happened();
      expect(await all('', { status: null, destination_id: null })).toMatchObject({ body: { redriven: 1 } });
    });
    expect(entries).toHaveLength(4);
  });

  it('a second call in quick succession sent it twice: it is begun and counted once', async () => {
    const { id } = await happened();
    await happened({ cause: 'transformation' });
    const all = (body: object) => owner.call<Redriven>('POST', './deliveries/redrive', body);
    let counted: readonly number[] = [];
    const entries = await appended(TOPIC.deliveries, async () => {
      const filters = [{ destination_id: destinationId }, {}, { cause: null }];
      const answers = await Promise.all(filters.map((filter) => all(filter)));
      counted = answers.map(({ body }) => body.redriven).sort();
      expect((await redrive(id)).status).toBe(409);
    });
    expect(counted).toEqual([0, 0, 2]);
    expect(entries).toHaveLength(1);
    expect(entries[0]?.headers[HEADER.redriveOf]).toContain(id);
  });

  it('a call that failed between its appends is repeated, as the redrive of the same death', async () => {
    const { id } = await happened();
    const { log } = test.dependencies;
    const really = log.append.bind(log);
    const append = vi.spyOn(log, 'append').mockImplementation((topic, entries) => {
      if (topic === TOPIC.outcomes) throw new Unavailable('the log does not answer');
      return really(topic, entries);
    });
    const begun = await appended(TOPIC.deliveries, async () => {
      expect((await redrive(id)).status).toBe(503);
      append.mockRestore();
      expect((await redrive(id)).status).toBe(202);
    });
    const deaths = begun.map(({ headers }) => headers[HEADER.redriveOf]);
    expect(deaths).toEqual([deaths[0], deaths[0]]);
  });

  it('reaches what lies behind more dead ones than one call looks at, and comes to an end', async () => {
    const redriveFrom = async (cursor: string | null) =>
      (await owner.call<Redriven>('POST', './deliveries/redrive', { cursor })).body;
    await happened();
    await happened();
    const nowhere = { destination_id: randomUUID() };
    await test.dependencies.history.put(Array.from({ length: 5_000 }, () => entryOf({}, nowhere)));

    const first = await redriveFrom(null);
    expect(first).toEqual({ redriven: 0, more: true, cursor: expect.any(String) });
    expect(await redriveFrom(first.cursor)).toEqual({ redriven: 2, more: false, cursor: null });
  });

  it('a redrive of thousands had no count before: a dry run counts those with one reason, and changes nothing', async () => {
    const count = process.env.TRIBUTARY_TEST_LONG === undefined ? 2_000 : 10_000;
    const reasons = ['answered 401', 'answered 500'];
    const entries = Array.from({ length: count }, (_, at) => entryOf({ reason: reasons[at % 2] ?? '' }));
    await test.dependencies.history.put(entries);
    const all = async (more: object) => {
      let [total, cursor]: [number, string | null] = [0, null];
      do {
        const body: object = { reason: '401', destination_id: destinationId, cursor, ...more };
        const answer: { body: Redriven } = await owner.call<Redriven>('POST', './deliveries/redrive', body);
        total += answer.body.redriven;
        cursor = answer.body.cursor;
      } while (cursor !== null);
      return total;
    };
    const begun = await appended(TOPIC.deliveries, async () => {
      expect(await all({ dry_run: true })).toBe(count / 2);
    });
    expect(begun).toEqual([]);
    expect(await all({})).toBe(count / 2);
    expect(await all({ dry_run: true })).toBe(0);
  });

  it('deliveries that ended as their destination was disabled are redriven once it is enabled again', async () => {
    const disabled = { cause: 'destination', reason: 'the destination is disabled' } as const;
    await test.dependencies.history.put(Array.from({ length: 1_000 }, () => entryOf(disabled)));
    const enable = (enabled: boolean) => owner.ok('PATCH', `./destinations/${destinationId}`, { enabled });
    const redriveAll = (dry_run: boolean) =>
      owner.ok<Redriven>('POST', './deliveries/redrive', { reason: 'is disabled', dry_run });
    await enable(false);
    expect(await redriveAll(true)).toMatchObject({ redriven: 0 });
    await enable(true);
    expect(await redriveAll(true)).toMatchObject({ redriven: 1_000 });
    expect(await redriveAll(false)).toMatchObject({ redriven: 1_000, cursor: null });
  });

  it('refuses an invalid cursor, and two of them', async () => {
    const none = await owner.call('POST', './deliveries/redrive', { cursor: '%00' });
    expect(none).toMatchObject(refusedFor('cursor'));
    const two = await owner.call('POST', './deliveries/redrive?cursor=YQ', { cursor: 'Yq' });
    expect(two).toMatchObject(refusedFor('/cursor'));
  });
});

describe('a discard', () => {
  const discard = (id: string) => owner.call('POST', `./deliveries/${id}/discard`);
  /** Stands in for the history stage on the appended records. */
  const discarded = (id: string) =>
    test.dependencies.history
      .get('delivery', String(owner.workspaceId), id)
      .then((entry) => entry && outcomeOfEntry(entry))
      .then((dead) => dead && historyEntryOfOutcome({ ...dead, status: 'discarded' }))
      .then((entry) => entry && test.dependencies.history.put([entry]));

  it('lets a dead delivery be: it is shown as such, and not redriven', async () => {
    const { id } = await happened();
    expect(await discard(id)).toMatchObject({ status: 202, body: { discarded: 1 } });
    await discarded(id);
    expect(await owner.ok('GET', './deliveries?status=discarded')).toMatchObject([{ id, reason: 'gone' }]);
    expect(await owner.ok('GET', './deliveries?status=dead')).toEqual([]);
    expect((await owner.call('POST', `./deliveries/${id}/redrive`)).status).toBe(409);
    expect(await owner.ok('POST', './deliveries/redrive')).toMatchObject({ redriven: 0 });
    expect(await discard(id)).toMatchObject({ status: 202 });
  });

  it('is for dead ones, by id or filter', async () => {
    const retrying = await happened({ status: 'retrying' });
    expect((await discard(retrying.id)).status).toBe(409);
    expect((await discard(randomUUID())).status).toBe(404);
    await happened({ reason: 'answered 422' });
    await happened({ reason: 'timeout' });
    const some = await owner.call('POST', './deliveries/discard', { reason: '422' });
    expect(some).toMatchObject({ status: 202, body: { discarded: 1, more: false, cursor: null } });
  });
});

describe('groups of deliveries with the same failure', () => {
  interface Group {
    readonly group: string;
    readonly deliveries: number;
    readonly failure: string;
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
});
