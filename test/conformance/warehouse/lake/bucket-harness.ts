import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { JsonObject } from '@tributary/core';
import { startS3Server } from '../../../helpers/s3-server.ts';
import { openJudge, parquetTable } from '../suite/duckdb.ts';
import { loadersOf, type WarehouseHarness } from '../suite/harness.ts';
import { startHttpProxy } from '../suite/http-proxy.ts';

const PREFIX = 'tributary/tests';

interface BucketOptions {
  readonly knowsConditions?: boolean;
  readonly format?: BucketFormat;
  /** Further settings of the destination. */
  readonly more?: JsonObject;
}

/** The format of a lake in a bucket: its settings, and what DuckDB reads of a table in a copy of the objects. */
interface BucketFormat {
  readonly settings: Readonly<Record<string, string | number | boolean>>;
  relation(folder: string, table: string): Promise<string>;
}

const PLAIN: BucketFormat = {
  settings: {},
  relation: async (folder, table) => parquetTable(folder, table),
};

/**
 * A lake in a bucket of a server in this process, which has no conditional writes: the proxy in front of it answers those, and
 * loses answers. DuckDB reads a copy of the objects.
 */
export async function bucketHarness({
  knowsConditions = true,
  format = PLAIN,
  more = {},
}: BucketOptions = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-s3-lake-'));
  const server = await startS3Server('customer-lake');
  /** The server does one request at a time, as two of them for one object would disturb each other there. */
  let turn: Promise<void> = Promise.resolve();
  const proxy = await startHttpProxy(`http://127.0.0.1:${server.port}`, (incoming, outgoing, pass) => {
    const answer = async () => {
      const { url = '', headers } = incoming;
      const key = decodeURIComponent(url.split('?')[0] ?? '').replace(`/${server.settings.bucket}/`, '');
      const isThere = headers['if-none-match'] === '*' && knowsConditions && existsSync(server.path(key));
      if (!isThere) return pass();
      incoming.resume();
      outgoing.writeHead(412).end('<Error><Code>PreconditionFailed</Code></Error>');
    };
    const answered = turn.then(answer);
    turn = answered.catch(() => undefined);
    return answered;
  });

  const judge = await openJudge();
  const settings = {
    ...server.settings,
    endpoint: proxy.url,
    prefix: PREFIX,
    ...format.settings,
    ...more,
  };
  const loaders = loadersOf('lake', settings);
  /** The objects of a table as files of their names. */
  const copied = async (table: string) => {
    const copy = await mkdtemp(join(folder, 'copy-'));
    for (const key of (await server.keys()).filter((one) => one.includes(`/${table}/`))) {
      const to = join(copy, key.slice(PREFIX.length));
      await mkdir(dirname(to), { recursive: true });
      await copyFile(server.path(key), to);
    }
    return format.relation(copy, table);
  };

  return {
    open: () => loaders.open(),
    rows: async (table: string) => judge.rows(await copied(table)),
    type: async (table: string, column: string) => (await judge.types(await copied(table))).get(column),
    knowsIdsByTime: true,
    byHand: {
      dropTable: (table: string) => rm(server.folder(`${PREFIX}/${table}`), { recursive: true }),
      dropLedger: () => rm(server.folder(`${PREFIX}/_tributary`), { recursive: true }),
    },
    ...proxy.faults,
    loseNextCommit() {
      proxy.decide((_method, path, { headers }) => {
        if (headers['if-none-match'] !== '*' || !path.includes('/_tributary/log/')) return 'answered';
        proxy.decide(() => 'answered');
        return 'lost';
      });
    },
    async close() {
      await loaders.close();
      await judge.close();
      await proxy.close();
      await server.close();
      // It may still write what a connection brought that was cut.
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  } satisfies WarehouseHarness & Readonly<Record<string, unknown>>;
}
