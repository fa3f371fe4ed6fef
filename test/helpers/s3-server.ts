import { mkdtemp, readdir, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import S3rver from 's3rver';

/** The server's only access key. */
const KEY = 'S3RVER';
const CONTENT = '._S3rver_object';

/** A server of objects in this process, with one bucket in a temporary folder. It checks signatures. */
export async function startS3Server(bucket: string) {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-s3-'));
  const server = new S3rver({
    port: 0,
    address: '127.0.0.1',
    silent: true,
    vhostBuckets: false,
    directory,
    configureBuckets: [{ name: bucket, configs: [] }],
  });
  const { port } = (await server.run()) as AddressInfo;
  return {
    port,
    /** By which a destination finds the bucket, beside its endpoint and a prefix. */
    settings: {
      region: 'eu-central-1',
      bucket,
      path_style: true,
      access_key_id: KEY,
      secret_access_key: KEY,
    },
    /** The file of an object, or the folder of a prefix without its end. */
    path: (key: string) => join(directory, bucket, `${key}${CONTENT}`),
    folder: (prefix: string) => join(directory, bucket, prefix),
    /** The keys of all objects. */
    async keys(): Promise<readonly string[]> {
      const files = await readdir(join(directory, bucket), { recursive: true });
      return files.filter((name) => name.endsWith(CONTENT)).map((name) => name.slice(0, -CONTENT.length));
    },
    async close() {
      await server.close();
      // It may still write what a connection brought that was cut.
      await rm(directory, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
