import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { Unavailable, type Warehouse, WarehouseRefused } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { onLoopback } from '../../../helpers/on-loopback.ts';
import { loadersOf, signal, TestLoader, track } from '../suite/harness.ts';

/** The answer to a statement; `lost`: none, and the connection ends. */
type Answer = Readonly<Record<string, unknown>> | 'lost';

/** A server that speaks Snowflake's protocol, has the tables of a loader, and takes every statement. */
class FakeSnowflake {
  readonly statements: string[] = [];
  readonly files = new Map<string, Buffer>();
  sessions = 0;
  /** Answers a statement in place of the usual answer. */
  answer: (sql: string) => Answer | undefined = () => undefined;
  signIn: Answer | undefined;
  readonly #server = createServer((request, response) => void this.#serve(request, response));

  #close = async (): Promise<void> => undefined;
  url = '';

  async start(): Promise<void> {
    ({ url: this.url, close: this.#close } = await onLoopback(this.#server));
  }

  stop(): Promise<void> {
    return this.#close();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const { pathname, searchParams } = new URL(request.url ?? '', this.url);
    const reply = (answer: Answer) => {
      if (answer === 'lost') return request.socket.destroy();
      const { status = 200, ...rest } = answer;
      const text = JSON.stringify({ success: true, ...rest });
      return response.writeHead(Number(status)).end(text);
    };
    if (pathname === '/session/v1/login-request') {
      this.sessions += 1;
      return void reply(this.signIn ?? { data: { token: 'session-token' } });
    }
    if (pathname === '/session') {
      if (searchParams.get('delete') === 'true') this.sessions -= 1;
      return void reply({});
    }
    if (pathname === '/chunk') return void response.end(gzipSync('["2"],["3"]'));
    if (pathname === '/result') return void reply(this.answer('/result') ?? {});
    if (request.method === 'PUT') {
      this.files.set(pathname, body);
      return void reply({});
    }
    const { sqlText } = JSON.parse(String(body)) as { readonly sqlText: string };
    this.statements.push(sqlText);
    return void reply(this.answer(sqlText) ?? this.#usual(sqlText));
  }

  #usual(sql: string): Answer {
    const rows = (names: readonly string[], rowset: readonly unknown[]): Answer => ({
      data: { rowtype: names.map((name) => ({ name })), rowset },
    });
    if (sql.startsWith('put ')) {
      const path = /@\S+"\/(\S+) /.exec(sql)?.[1] ?? '';
      const stageInfo = {
        locationType: 'GCS',
        location: '',
        creds: {},
        presignedUrl: `${this.url}/files/${path}`,
      };
      return { data: { stageInfo } };
    }
    if (sql.startsWith('copy ')) return rows(['file', 'rows_loaded'], [['f', '3']]);
    if (/^insert|^update|^delete/.test(sql)) return rows(['number of rows inserted'], [['1']]);
    if (sql.includes('information_schema.columns')) return rows([], this.tables);
    return rows(['x'], []);
  }

  /** Rows of the catalog. */
  readonly tables: unknown[][] = [
    ...['_TRIBUTARY_LOADS', '_TRIBUTARY_PROFILES', '_TRIBUTARY_LOCK'].map((name) => [
      name,
      'X',
      'TEXT',
      '16777216',
      null,
      null,
    ]),
  ];
}

describe('Snowflake’s protocol', () => {
  const fake = new FakeSnowflake();
  let loaders: ReturnType<typeof loadersOf>;
  let warehouse: Warehouse;
  beforeEach(async () => {
    await fake.start();
    loaders = loadersOf('warehouse-snowflake', {
      account: 'a',
      url: fake.url,
      username: 'u',
      password: 'very-secret',
      warehouse: 'W',
      database: 'D',
      schema: 'S',
    });
    warehouse = loaders.open();
  });
  afterEach(async () => {
    await loaders.close();
    await fake.stop();
    fake.answer = () => undefined;
    fake.signIn = undefined;
    fake.statements.length = 0;
    fake.files.clear();
    fake.sessions = 0;
  });
  const ledger = {
    lane: 'live',
    seq: 1,
    batch: 'b1',
    ranges: [],
    rows: {},
    loadedAt: '2024-03-01T00:00:00.000Z',
  };
  const commit = () =>
    warehouse.commit(
      {
        ledger,
        attempt: 1,
        inserts: [],
        profiles: undefined,
        discardsOf: () => ({ table: 'discards', columns: new Map(), count: 0, rows: [] }),
      },
      signal,
    );
  const copied =
    (count: number) =>
    (sql: string): Answer | undefined =>
      sql.startsWith('copy ')
        ? { data: { rowtype: [{ name: 'rows_loaded' }], rowset: [[String(count)]] } }
        : undefined;

  it.each<readonly [string, Answer]>([
    ['with an error of the service', { status: 500 }],
    ['by the end of the connection', 'lost'],
    ['with nonsense', { success: 'maybe' }],
  ])(
    'report 23: a commit that is answered %s is unknown, and its session is left',
    async (_title, answer) => {
      fake.answer = (sql) => (sql === 'commit' ? answer : copied(0)(sql));
      const done = commit();
      if (answer === 'lost' || answer.status === 500) await expect(done).rejects.toThrow(Unavailable);
      else await expect(done).rejects.toThrow();
      expect(fake.sessions).toBe(0);
    },
  );

  it('report 31: fewer rows than were sent are not loaded', async () => {
    fake.answer = copied(-1);
    await expect(commit()).rejects.toThrow(Unavailable);
    expect(fake.statements).not.toContain('begin');
  });

  it('report 10 to 12: each attempt has files of its own, copied by name, and one path is removed after the commit', async () => {
    fake.answer = copied(0);
    await commit();
    await commit();
    const puts = fake.statements.filter((sql) => sql.startsWith('put '));
    expect(new Set(puts).size).toBe(2);
    expect(puts[0]).toContain('overwrite = true');
    expect(fake.files.size).toBe(2);
    const last = fake.statements.at(-1);
    expect(last).toMatch(/^remove @"D"."S"."_TRIBUTARY_STAGE"\/\S+\/b1\/$/);
    expect(fake.statements.lastIndexOf('commit')).toBeLessThan(fake.statements.length - 1);
    expect(fake.statements.find((sql) => sql.startsWith('copy '))).toContain("files = ('rows.json.gz')");
  });

  it('a ledger row of another loader ends the transaction', async () => {
    fake.answer = (sql) =>
      sql.startsWith('select 1 from') ? { data: { rowtype: [], rowset: [['1']] } } : copied(0)(sql);
    expect(await commit()).toEqual({ done: false });
    expect(fake.statements).toContain('rollback');
    expect(fake.statements).not.toContain('commit');
  });

  it('a statement that runs on is asked for until it has ended', async () => {
    let asked = 0;
    fake.answer = (sql) => {
      if (sql === '/result') {
        asked += 1;
        return asked < 3
          ? { success: false, code: '333334', data: { getResultUrl: '/result' } }
          : { data: { rowtype: [], rowset: [['T', 'C', 'BOOLEAN', null, null, null]] } };
      }
      return sql.includes('information_schema')
        ? { success: false, code: '333333', data: { getResultUrl: '/result' } }
        : undefined;
    };
    expect(await warehouse.describe(['t'], signal)).toEqual(new Map([['t', new Map([['c', 'boolean']])]]));
    fake.answer = () => ({ success: false, code: '333333', data: { getResultUrl: 'http://10.0.0.1/x' } });
    await expect(warehouse.describe(['t'], signal)).rejects.toThrow(Unavailable);
  });

  it('rows of a large result come from the storage of the account', async () => {
    fake.answer = (sql) =>
      sql.includes('information_schema')
        ? { data: { rowtype: [], rowset: [], chunks: [{ url: `${fake.url}/chunk` }] } }
        : undefined;
    // The chunk has rows of one value, which describe no column.
    await expect(warehouse.describe(['t'], signal)).rejects.toThrow('Snowflake did not describe its tables');
  });

  it('refused credentials are for a person, and are not told', async () => {
    fake.signIn = { success: false, code: '390100', message: 'Incorrect password very-secret' };
    await expect(warehouse.newest('live', signal)).rejects.toThrow(WarehouseRefused);
    const result = await warehouse.test(signal);
    expect(result).toEqual({ ok: false, reason: 'not authenticated (390100)' });
  });

  it('a session that has ended is replaced at the next call', async () => {
    await warehouse.describe(['t'], signal);
    fake.answer = () => ({ success: false, code: '390112' });
    await expect(warehouse.describe(['t'], signal)).rejects.toThrow(Unavailable);
    fake.answer = () => undefined;
    await warehouse.describe(['t'], signal);
    expect(fake.sessions).toBe(1);
  });

  it('report 30: all that is sent is in upper case and quoted', async () => {
    fake.answer = (sql) => copied(sql.startsWith('copy ') ? 2 : 0)(sql);
    await new TestLoader(warehouse)
      .load([track('Order Completed', { userId: 1, USERID: 2 })])
      .catch(() => undefined);
    const created = fake.statements.find((sql) => sql.startsWith('create table "D"."S"."ORDER_COMPLETED"'));
    expect(created).toContain('"_USER_ID" number(38, 0), "USERID" number(38, 0)');
  });
});
