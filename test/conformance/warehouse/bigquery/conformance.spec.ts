import { type JsonObject, objectIn, Unavailable, WarehouseRefused } from '@tributary/core';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postgresServer } from '../../../helpers/postgres.ts';
import { noEngine } from '../../connector/suite/harness.ts';
import { signal, TestLoader, track } from '../suite/harness.ts';
import { profileChange } from '../suite/profiles.ts';
import { warehouseConformance } from '../suite/warehouse.conformance.ts';
import { type ApiRequest, refusal } from './api.ts';
import { bigqueryHarness } from './harness.ts';

const isLong = process.env.TRIBUTARY_TEST_LONG !== undefined;
const server = await postgresServer();

describe.skipIf(server === undefined)('on an API over PostgreSQL', () => {
  const create = () => (server === undefined ? noEngine('postgres') : bigqueryHarness(server));
  afterAll(() => server?.stop());
  warehouseConformance(
    'warehouse-bigquery',
    create,
    isLong ? { loaders: 8, tables: 50, batches: 4 } : undefined,
  );

  describe('an API of BigQuery', () => {
    let harness: Awaited<ReturnType<typeof bigqueryHarness>>;
    let loader: TestLoader;
    beforeEach(async () => {
      harness = await create();
      loader = new TestLoader(harness.open());
    });
    afterEach(() => harness.close());

    const order = (n: number, more = {}) => track('Order', { n, ...more });
    const column = async (table: string, of: string) =>
      (await harness.rows(table)).map((row) => row[of] ?? null).sort();
    const stages = () =>
      [...harness.api.resources.keys()].filter((name) => name.startsWith('_tributary_stage_'));
    const hasStage = async () =>
      (await Promise.all(stages().map((name) => harness.rows(name)))).some((rows) => rows.length > 0);
    const isCommit = ({ sql }: ApiRequest) => sql.includes('commit transaction');
    const isUpload = ({ path, method }: ApiRequest) => path.startsWith('upload/') && method === 'PUT';
    /** Does something to the first requests of a kind. */
    const meddle = (
      which: (request: ApiRequest) => boolean,
      ...each: NonNullable<ReturnType<NonNullable<typeof harness.api.meddle>>>[]
    ) => {
      harness.api.meddle = (request) => (which(request) ? each.shift() : undefined);
    };

    it.each([
      ['of a commit is lost', isCommit, { loses: 'answer' }],
      ['of a commit is 503, though it is done', isCommit, { loses: 'answer', status: 503 }],
      ['of an upload is lost', isUpload, { loses: 'answer' }],
      ['does not come, as the request was lost', isCommit, { loses: 'request' }],
      ['is 429', isCommit, refusal(429, 'rateLimitExceeded')],
      ['is 403, for a quota', isUpload, refusal(403, 'quotaExceeded')],
    ] as const)('has each job once where an answer %s', async (_title, which, meddling) => {
      meddle(which, meddling);
      const { result } = await loader.load([order(1), order(2)]);
      expect(result).toMatchObject({ done: true, inserted: { order: 2, tracks: 2 } });
      expect(await column('order', 'n')).toEqual(['1', '2']);
    });

    it('refuses a second job with an id, which is how it is sent again', async () => {
      const ids: unknown[] = [];
      harness.api.meddle = (request) => {
        if (!isCommit(request)) return undefined;
        ids.push(objectIn(request.body.jobReference).jobId);
        return ids.length === 1 ? { loses: 'answer' } : undefined;
      };
      await loader.load([order(1)]);
      expect(ids).toHaveLength(2);
      expect(new Set(ids).size).toBe(1);
    });

    it('report 13: that describes a table without columns is asked later', async () => {
      await loader.load([order(1)]);
      meddle(({ path, method }) => method === 'GET' && path.endsWith('/order'), {
        status: 200,
        body: { type: 'TABLE', schema: {} },
      });
      await expect(loader.load([order(2)])).rejects.toThrow(Unavailable);
      await loader.load([order(2)]);
      expect(await column('order', 'n')).toEqual(['1', '2']);
    });

    it('report 14: a time that was made a number gets none, and GEOGRAPHY nothing', async () => {
      const at = '2024-02-29T12:00:00.120Z';
      await loader.load([order(1, { at, place: 'here' })]);
      await harness.sql((of) => `alter table ${of('order')} drop column at, add column at bigint`);
      await harness.byHand.makeForeign('order', 'place');
      const { drifts } = await loader.load([order(2, { at, place: 'there' })]);
      expect(drifts.map(({ column: name, kind }) => [name, kind]).sort()).toEqual([
        ['at', 'retyped'],
        ['place', 'foreign'],
      ]);
      expect(await column('discards', 'value')).toEqual([JSON.stringify(at), '"there"'].sort());
    });

    it('report 31: that stages one row less and says nothing gets no commit', async () => {
      harness.api.rowsLost = 1;
      await expect(loader.load([order(1), order(2)])).rejects.toThrow(
        new Unavailable('BigQuery lost staged rows'),
      );
      expect(await loader.warehouse.newest('live', signal)).toBeUndefined();
      harness.api.rowsLost = 0;
      await loader.load([order(1), order(2)]);
      expect(await column('order', 'n')).toEqual(['1', '2']);
    });

    it('report 34: has what was staged until the ledger has it, and for a day at most', async () => {
      harness.api.meddle = (request) => (isCommit(request) ? refusal(403, 'accessDenied') : undefined);
      await expect(loader.load([order(1)])).rejects.toThrow(WarehouseRefused);
      expect(await hasStage()).toBe(true);
      const [resource = {}] = stages().map((name) => harness.api.resources.get(name) ?? {});
      const left = Number(resource.expirationTime) - Date.now();
      expect(left).toBeGreaterThan(23 * 3_600_000);
      expect(left).toBeLessThanOrEqual(24 * 3_600_000);
      harness.api.meddle = undefined;
      await loader.load([order(1)]);
      const { rows } = await harness.tables('_tributary_stage_%');
      expect(rows).toHaveLength(1);
    });

    it('loads a batch of more tables than a transaction changes, and no row twice after a failure', async () => {
      const events = Array.from({ length: 130 }, (_, at) => track(`Kind ${at}`, { n: at }));
      const changes = [profileChange('U1', 1, { plan: 'free' }, ['ann'])];
      let commits = 0;
      harness.api.meddle = (request) => {
        if (!isCommit(request)) return undefined;
        commits += 1;
        return commits === 2 ? refusal(400, 'invalid') : undefined;
      };
      await expect(loader.load(events, { changes })).rejects.toThrow(WarehouseRefused);
      expect(await loader.warehouse.newest('live', signal)).toBeUndefined();
      const { result } = await loader.load(events, { changes });
      expect(result).toMatchObject({ done: true });
      expect(await column('tracks', 'id')).toEqual(events.map(({ message_id }) => message_id).sort());
      expect(await column('kind_129', 'n')).toEqual(['129']);
      expect(await harness.rows('users')).toHaveLength(1);
    });

    it('deletes more people than one script may name', async () => {
      const ids = (of: string) => Array.from({ length: 4_000 }, (_, at) => `${of} ${at}`);
      const people = { user_ids: ids('user'), anonymous_ids: ids('device'), ucids: ids('profile') };
      const order = (user_id: string) => track('Order', {}, { user_id });
      await loader.load(['user 0', 'user 3999', 'bob'].map(order), {
        changes: [profileChange('profile 3999', 1, {}, ['ann'])],
      });
      const parameters: number[] = [];
      harness.api.meddle = (request) => {
        if (!isCommit(request)) return undefined;
        const { queryParameters } = objectIn(objectIn(request.body.configuration).query);
        parameters.push(Array.isArray(queryParameters) ? queryParameters.length : 0);
        return undefined;
      };
      expect(await loader.warehouse.delete(people, signal)).toMatchObject({ order: 2, tracks: 2, users: 1 });
      expect(await column('tracks', 'user_id')).toEqual(['bob']);
      // BigQuery allows 10,000.
      expect(Math.max(...parameters)).toBeGreaterThan(0);
      expect(Math.max(...parameters)).toBeLessThanOrEqual(10_000);
    });

    it('looks for rows near the time of the load where that is set, also for those of a replay', async () => {
      const near = new TestLoader(harness.open({ match_days: 2 }));
      const old = order(1, {});
      await near.load([old]);
      await near.load([old, { ...order(2), received_at: '2019-01-01T00:00:00.000Z' }]);
      await near.load([{ ...old, received_at: '2024-03-01T12:00:00.000Z' }]);
      expect(await column('order', 'n')).toEqual(['1', '2']);
      await near.load([{ ...old, received_at: '2024-04-01T12:00:00.000Z' }]);
      expect(await column('order', 'n')).toEqual(['1', '1', '2']);
    });

    describe('while a column is written anew', () => {
      const mark = (job: string) =>
        harness.sql((of) => `update ${of('_tributary_lock')} set rebuilding = '${job}'`);
      beforeEach(async () => {
        await loader.load([order(1)]);
      });

      it('commits nothing before that job has ended, and goes on behind one that is gone', async () => {
        await mark('a-job-that-is-gone');
        await loader.load([order(2)]);
        await mark('a-job-that-runs');
        harness.api.meddle = ({ path }) =>
          path === 'jobs/a-job-that-runs'
            ? { status: 200, body: { status: { state: 'RUNNING' } } }
            : undefined;
        const waiting = loader.load([order(3)]);
        await expect(
          Promise.race([waiting, new Promise((resolve) => setTimeout(resolve, 500, 'waits'))]),
        ).resolves.toBe('waits');
        harness.api.meddle = undefined;
        await waiting;
        expect(await column('order', 'n')).toEqual(['1', '2', '3']);
      });

      it.each(['add column', 'update', 'rename column', 'drop column'])(
        'loses no value where the job ends before its step "%s"',
        async (step) => {
          harness.api.endBefore = step;
          const text = track('Order', { n: 'text' });
          await expect(loader.load([text])).rejects.toThrow(Unavailable);
          harness.api.endBefore = undefined;
          await loader.load([order(2), text]);
          const known = [
            ...(await column('order', 'n')),
            ...(await column('discards', 'value')).map((value) => JSON.parse(String(value))),
          ];
          expect(known.filter((value) => value !== null).sort()).toEqual(['1', '2', 'text']);
          expect(await harness.rows('_tributary_lock')).toEqual([
            expect.objectContaining({ rebuilding: null }),
          ]);
        },
      );
    });

    it('report 14 and 27: a column that it does not let change stays as it is', async () => {
      await loader.load([order(1)]);
      harness.api.meddle = ({ sql }) =>
        sql.includes('alter table') ? refusal(403, 'accessDenied') : undefined;
      const { drifts } = await loader.load([track('Order', { n: 'text', fresh: 1 })]);
      expect(drifts.map(({ column: name, kind }) => [name, kind]).sort()).toEqual([
        ['fresh', 'held'],
        ['n', 'held'],
      ]);
      expect((await column('discards', 'value')).sort()).toEqual(['"text"', '1']);
    });

    it.each<[string, JsonObject, string]>([
      [
        'whose tables end by themselves',
        { defaultTableExpirationMs: '5184000000' },
        'default table expiration',
      ],
    ])('refuses a dataset %s', async (_title, properties, reason) => {
      harness.api.dataset = properties;
      expect(await harness.open().test(signal)).toEqual({
        ok: false,
        reason: expect.stringContaining(reason),
      });
      await expect(loader.load([order(1)])).rejects.toThrow(WarehouseRefused);
    });

    it('has a connection test that leaves the dataset to a first load beside it', async () => {
      const [tested] = await Promise.all([harness.open().test(signal), loader.loadAtLast([order(1)], {})]);
      expect(tested).toEqual({ ok: true });
      expect(await column('order', 'n')).toEqual(['1']);
    });

    it('says which right the account lacks, and nothing of its key', async () => {
      const message = 'Access Denied: Project p: User does not have bigquery.jobs.create permission';
      harness.api.meddle = ({ path, method }) =>
        method === 'POST' && path === 'jobs' ? refusal(403, 'accessDenied', message) : undefined;
      expect(await harness.open().test(signal)).toEqual({ ok: false, reason: `${message} (accessDenied)` });
    });

    it('sends nothing to a token address that may not be reached', async () => {
      const key = JSON.parse(harness.key);
      const warehouse = harness.open({
        service_account_key: JSON.stringify({ ...key, token_uri: 'http://169.254.169.254/token' }),
      });
      expect(await warehouse.test(signal)).toEqual({ ok: false, reason: 'address not allowed' });
    });

    it('keeps texts of any characters, and takes none of them for statements', async () => {
      const texts = ['"}\n{"t":0', "'; drop table x; --", '`', '\\', '\u2028', '@seq', '@@row_count'];
      await loader.load(texts.map((v) => track(v, { v }, { user_id: v })));
      expect(await column('tracks', 'user_id')).toEqual([...texts].sort());
      expect(await column('tracks', 'event_text')).toEqual([...texts].sort());
    });

    it('leaves a table with a column that tells texts by more than their bytes alone', async () => {
      await loader.load([order(1)]);
      harness.api.meddle = ({ path, method }) =>
        method === 'GET' && path.endsWith('/order')
          ? {
              status: 200,
              body: {
                type: 'TABLE',
                schema: { fields: [{ name: 'id', type: 'STRING', collation: 'und:ci' }] },
              },
            }
          : undefined;
      await expect(loader.load([order(2)])).rejects.toThrow(
        new WarehouseRefused('the column "id" of the table "order" was changed by hand'),
      );
    });

    it('fetches a new token where the old one is not taken any more', async () => {
      await loader.load([order(1)]);
      harness.api.token = 'another-token';
      await expect(loader.load([order(2)])).rejects.toThrow(WarehouseRefused);
      await loader.load([order(2)]);
      harness.api.token = undefined;
      await expect(new TestLoader(harness.open()).load([order(3)])).rejects.toThrow(
        new WarehouseRefused('the service account key is not accepted (invalid_grant)'),
      );
    });
  });
});
