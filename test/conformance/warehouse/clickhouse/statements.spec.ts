import { createServer } from 'node:http';
import { Unavailable, type Warehouse, type WarehouseBatch, WarehouseRefused } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { onLoopback } from '../../../helpers/on-loopback.ts';
import { loadersOf, signal } from '../suite/harness.ts';

/** A refusal in the words of ClickHouse. */
const refusal = (code: number, type: string) => ({
  code,
  text: `Code: ${code}. DB::Exception: Said so. (${type})`,
});

const BATCH: WarehouseBatch = {
  ledger: { lane: 'live', seq: 1, batch: 'b', ranges: [], rows: {}, loadedAt: '2024-03-01T00:00:00.000Z' },
  attempt: 1,
  inserts: [
    {
      table: 'tracks',
      columns: new Map([['id', 'text']]),
      count: 1,
      rows: [['m-1']],
    },
  ],
  profiles: undefined,
  discardsOf: () => ({ table: 'discards', columns: new Map(), count: 0, rows: [] }),
};

// The engine itself runs in the long form.
describe('statements to ClickHouse', () => {
  let statements: string[];
  /** Settings by which rows could be left out without an error, as each request has them. */
  let allowed: string[];
  /** Refusals by the start of a statement; each is given once. */
  let refusals: Map<string, ReturnType<typeof refusal>>;
  let warehouse: Warehouse;
  let close: () => Promise<void>;

  beforeEach(async () => {
    statements = [];
    allowed = [];
    refusals = new Map();
    const rowsOf = (sql: string): object[] => {
      if (sql.includes('from system.databases')) return [{ engine: 'Atomic' }];
      if (sql.includes('from system.columns'))
        return [{ table: 'tracks', name: 'id', type: 'String', default_kind: '', comment: '', is_key: 1 }];
      if (sql.includes('select 1 from'))
        return statements.some((one) => one.includes('`_tributary_loads` (destination_id')) ? [{ 1: 1 }] : [];
      if (sql.includes('argMin(attempt')) return [{ attempt: 'another', silent: '21' }];
      return [];
    };
    const server = createServer(async (request, response) => {
      const url = new URL(request.url ?? '', 'http://localhost');
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const body = Buffer.concat(chunks).toString();
      const sql = (url.searchParams.get('query') ?? body).trim();
      statements.push(sql);
      allowed.push(
        ...['num', 'ratio'].map((of) => url.searchParams.get(`input_format_allow_errors_${of}`) ?? ''),
      );
      const [refused] = [...refusals.keys()].filter((start) => sql.startsWith(start));
      const said = refusals.get(refused ?? '');
      if (said !== undefined) {
        refusals.delete(refused ?? '');
        response.writeHead(500, { 'x-clickhouse-exception-code': String(said.code) }).end(said.text);
      } else
        response.end(
          rowsOf(sql)
            .map((row) => `${JSON.stringify(row)}\n`)
            .join(''),
        );
    });
    const { url, close: stop } = await onLoopback(server);
    const settings = { host: '127.0.0.1', port: Number(new URL(url).port), tls: false, database: 'w' };
    const loaders = loadersOf('warehouse-clickhouse', settings);
    warehouse = loaders.open();
    close = async () => {
      await loaders.close();
      await stop();
    };
  });
  afterEach(() => close());

  /** What changes something, in short. */
  const changes = () =>
    statements
      .filter((sql) => !sql.startsWith('select'))
      .map(
        (sql) =>
          sql
            .replace(/_tributary_stage_\w+/g, 'stage')
            .replaceAll('`', '')
            .split(/ \(|\n/)[0],
      );

  it('of a load stage its rows, claim the database, insert by the id, and end with the ledger and the claim', async () => {
    expect(await warehouse.commit(BATCH, signal)).toMatchObject({ done: true, refused: [] });
    expect(changes()).toEqual([
      'create table w.stage',
      'insert into w.stage',
      'rename table w.stage to w._tributary_claim',
      'insert into w.tracks',
      'insert into w._tributary_loads',
      'drop table if exists w.stage sync',
    ]);
  });

  it('report 31: leave no row out that is not read, whatever the profile of the user allows', async () => {
    await warehouse.commit(BATCH, signal);
    expect(new Set(allowed)).toEqual(new Set(['0']));
  });

  it('end an attempt that gives no sign of life before anything else is written', async () => {
    refusals.set('rename', refusal(57, 'TABLE_ALREADY_EXISTS'));
    expect(await warehouse.commit(BATCH, signal)).toMatchObject({ done: true });
    expect(changes().slice(2, 6)).toEqual([
      'rename table w.stage to w._tributary_claim',
      'drop table if exists w._tributary_claim sync',
      'rename table w.stage to w._tributary_claim',
      'insert into w.tracks',
    ]);
  });

  it.each([
    ['the server is out of memory', 241, 'MEMORY_LIMIT_EXCEEDED', Unavailable],
    ['another attempt took the claim', 60, 'UNKNOWN_TABLE', Unavailable],
    ['a code is not known', 9_999, 'NEW_ERROR', Unavailable],
    ['a right is missing', 497, 'ACCESS_DENIED', WarehouseRefused],
    ['the user may only read', 164, 'READONLY', WarehouseRefused],
  ] as const)('that are refused because %s discard no row', async (_title, code, type, expected) => {
    refusals.set('insert into `w`.`tracks`', refusal(code, type));
    await expect(warehouse.commit(BATCH, signal)).rejects.toThrow(expected);
    expect(changes().filter((sql) => sql?.includes('_tributary_loads'))).toEqual([]);
  });

  it('leave out a row that violates a constraint, and tell it', async () => {
    refusals.set('insert into `w`.`tracks`', refusal(469, 'VIOLATED_CONSTRAINT'));
    expect(await warehouse.commit(BATCH, signal)).toMatchObject({
      done: true,
      refused: [{ table: 'tracks', row: 0, reason: 'Said so. (VIOLATED_CONSTRAINT)' }],
    });
  });
});
