import { access, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { JsonObject } from '@tributary/core';
import S3rver from 's3rver';
import { openJudge, parquetTable } from '../suite/duckdb.ts';
import { loadersOf, type WarehouseHarness } from '../suite/harness.ts';

const BUCKET = 'customer-lake';
/** The server's only access key. */
const KEY = 'S3RVER';
const PREFIX = 'tributary/tests';
const CONTENT = '._S3rver_object';

/** Bytes that stand for one request, in `cutAfter`. */
const BYTES_OF_REQUEST = 300;

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
  const server = new S3rver({
    port: 0,
    address: '127.0.0.1',
    silent: true,
    vhostBuckets: false,
    directory: join(folder, 'server'),
    configureBuckets: [{ name: BUCKET, configs: [] }],
  });
  const { port } = (await server.run()) as AddressInfo;
  const objects = join(folder, 'server', BUCKET);
  let isDown = false;
  let losesNext = false;
  let requestsLeft = Number.POSITIVE_INFINITY;

  /** The server does one request at a time, as two of them for one object would disturb each other there. */
  let turn: Promise<void> = Promise.resolve();
  const proxy = createServer((incoming, outgoing) => {
    const { url = '', method, headers } = incoming;
    const isCreation = headers['if-none-match'] === '*';
    requestsLeft -= 1;
    const isCut = requestsLeft < 0;
    if (isCut) requestsLeft = Number.POSITIVE_INFINITY;
    // Half of the requests that are cut still arrive.
    if (isDown || (isCut && url.length % 2 === 0)) {
      incoming.socket.destroy();
      return;
    }
    const isLost = isCut || (losesNext && isCreation && url.includes('/_tributary/log/'));
    if (isLost && !isCut) losesNext = false;
    turn = turn.then(answer).catch(() => void outgoing.destroy());
    async function answer(): Promise<void> {
      const key = decodeURIComponent(url.split('?')[0] ?? '').replace(`/${BUCKET}/`, '');
      const path = join(objects, `${key}${CONTENT}`);
      if (isCreation && knowsConditions && (await isThere(path))) {
        incoming.resume();
        outgoing.writeHead(412).end('<Error><Code>PreconditionFailed</Code></Error>');
        return;
      }
      const response = await passedOn(incoming, { port, path: url, method, headers });
      if (isLost) outgoing.destroy();
      else {
        outgoing.writeHead(response.statusCode ?? 500, response.headers);
        await pipeline(response, outgoing);
      }
    }
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));

  const judge = await openJudge();
  const settings = {
    endpoint: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    region: 'eu-central-1',
    bucket: BUCKET,
    prefix: PREFIX,
    path_style: true,
    access_key_id: KEY,
    secret_access_key: KEY,
    ...format.settings,
    ...more,
  };
  const loaders = loadersOf('lake', settings);
  /** The objects of a table as files of their names. */
  const copied = async (table: string) => {
    const copy = await mkdtemp(join(folder, 'copy-'));
    const below = join(objects, PREFIX);
    const names = (await isThere(below)) ? await readdir(below, { recursive: true }) : [];
    for (const name of names.filter((one) => one.endsWith(CONTENT) && one.includes(`${table}/`))) {
      const to = join(copy, name.slice(0, -CONTENT.length));
      await mkdir(dirname(to), { recursive: true });
      await writeFile(to, await readFile(join(below, name)));
    }
    return format.relation(copy, table);
  };

  return {
    open: () => loaders.open(),
    rows: async (table: string) => judge.rows(await copied(table)),
    type: async (table: string, column: string) => (await judge.types(await copied(table))).get(column),
    knowsIdsByTime: true,
    byHand: {
      dropTable: (table: string) => rm(join(objects, PREFIX, table), { recursive: true }),
      dropLedger: () => rm(join(objects, PREFIX, '_tributary'), { recursive: true }),
    },
    loseNextCommit() {
      losesNext = true;
    },
    cutAfter(bytes: number) {
      requestsLeft = Math.floor(bytes / BYTES_OF_REQUEST);
    },
    async fail() {
      isDown = true;
    },
    async mend() {
      isDown = false;
    },
    async close() {
      await loaders.close();
      await judge.close();
      await closed(proxy);
      await server.close();
      // It may still write what a connection brought that was cut.
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  } satisfies WarehouseHarness & Readonly<Record<string, unknown>>;
}

/** Sends a request on as it came, and resolves with the response. */
function passedOn(
  incoming: IncomingMessage,
  {
    port,
    path,
    method,
    headers,
  }: Readonly<Record<'path' | 'method', string | undefined>> & {
    readonly port: number;
    readonly headers: IncomingMessage['headers'];
  },
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ host: '127.0.0.1', port, path, method, headers }, resolve);
    outgoing.on('error', reject);
    incoming.on('close', () => {
      if (!incoming.complete) outgoing.destroy();
    });
    incoming.pipe(outgoing);
  });
}

function closed(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => {
    server.close(() => resolve());
  });
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
