import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import S3rver from 's3rver';
import { startFaultyProxy } from '../suite/faulty-proxy.ts';
import { type ConnectorHarness, ENGINE_CONNECTORS, type ReceivedBody } from '../suite/harness.ts';

const BUCKET = 'customer-events';
/** The server's only access key. */
const KEY = 'S3RVER';

/** A server in this process, with its objects in a temporary folder. It checks signatures. */
export interface S3Harness extends ConnectorHarness {
  /** The keys of all objects. */
  objects(): Promise<readonly string[]>;
}

export async function s3Harness(): Promise<S3Harness> {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-s3-'));
  const server = new S3rver({
    port: 0,
    address: '127.0.0.1',
    silent: true,
    vhostBuckets: false,
    directory: folder,
    configureBuckets: [{ name: BUCKET, configs: [] }],
  });
  const { port } = (await server.run()) as AddressInfo;
  const proxy = await startFaultyProxy({ host: '127.0.0.1', port });
  const at = (host: string) => ({
    endpoint: `http://${host}:${proxy.port}`,
    region: 'eu-central-1',
    bucket: BUCKET,
    prefix: 'tributary/tests',
    path_style: true,
    access_key_id: KEY,
    secret_access_key: KEY,
    batch_size: 200,
    batch_seconds: 1,
  });
  return {
    settings: at('127.0.0.1'),
    hopeless: at('10.0.0.1'),
    connectors: ENGINE_CONNECTORS,
    ordered: false,
    idempotent: true,
    network: { proxy, at },
    received: () => linesBelow(join(folder, BUCKET)),
    objects: async () =>
      (await objectsBelow(join(folder, BUCKET))).map((name) => name.replace(/\._S3rver_object$/, '')),
    fail: async () => proxy.set('refuse'),
    mend: async () => proxy.set('pass'),
    close: async () => {
      await proxy.close();
      await server.close();
      // It may still write what a connection brought that was cut.
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

async function objectsBelow(folder: string): Promise<readonly string[]> {
  const files = await readdir(folder, { recursive: true });
  return files.filter((name) => name.includes('.ndjson.gz') && name.endsWith('_object'));
}

async function linesBelow(folder: string): Promise<readonly ReceivedBody[]> {
  const objects = await objectsBelow(folder);
  const texts = await Promise.all(
    objects.map(async (name) => gunzipSync(await readFile(join(folder, name))).toString('utf8')),
  );
  const lines = texts.flatMap((text) => text.split('\n')).filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line) as ReceivedBody);
}
