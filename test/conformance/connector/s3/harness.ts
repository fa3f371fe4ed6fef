import { readFile } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';
import { startS3Server } from '../../../helpers/s3-server.ts';
import { startFaultyProxy } from '../suite/faulty-proxy.ts';
import { type ConnectorHarness, ENGINE_CONNECTORS, type ReceivedBody } from '../suite/harness.ts';

/** A server in this process, with its objects in a temporary folder. It checks signatures. */
export interface S3Harness extends ConnectorHarness {
  /** The keys of all objects. */
  objects(): Promise<readonly string[]>;
}

export async function s3Harness(): Promise<S3Harness> {
  const server = await startS3Server('customer-events');
  const proxy = await startFaultyProxy({ host: '127.0.0.1', port: server.port });
  const keys = async () => (await server.keys()).filter((key) => key.endsWith('.ndjson.gz'));
  const at = (host: string) => ({
    ...server.settings,
    endpoint: `http://${host}:${proxy.port}`,
    prefix: 'tributary/tests',
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
    received: async () => linesIn((await keys()).map(server.path)),
    objects: keys,
    fail: async () => proxy.set('refuse'),
    mend: async () => proxy.set('pass'),
    close: async () => {
      await proxy.close();
      await server.close();
    },
  };
}

async function linesIn(files: readonly string[]): Promise<readonly ReceivedBody[]> {
  const texts = await Promise.all(
    files.map(async (file) => gunzipSync(await readFile(file)).toString('utf8')),
  );
  const lines = texts.flatMap((text) => text.split('\n')).filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line) as ReceivedBody);
}
