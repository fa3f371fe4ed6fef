import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import S3rver from 's3rver';

/** The server's only access key. */
const KEY = 'S3RVER';
const CONTENT = '._S3rver_object';
/** The ends of the files of an object. */
const FILES = [CONTENT, `${CONTENT}.md5`, '._S3rver_metadata.json'];

/** The part of the server's store that is replaced; its types do not name it. */
interface Store {
  putObject(object: {
    readonly bucket: string;
    readonly key: string;
    readonly content: Buffer | Readable;
    readonly metadata: object;
  }): Promise<Written>;
  putPart(bucket: string, upload: string, part: number, content: Readable): Promise<Written>;
  deleteObject(bucket: string, key: string): Promise<void>;
  readonly putMetadata: (bucket: string, key: string, metadata: object, md5: string) => Promise<void>;
}

interface Written {
  readonly size: number;
  readonly md5: string;
}

async function write(path: string, content: Buffer | Readable): Promise<Written> {
  const body = Buffer.isBuffer(content) ? content : await buffer(content);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, body);
  return { size: body.length, md5: createHash('md5').update(body).digest('hex') };
}

/**
 * Makes calls safe beside one another. The store's own puts answer before the file is written whole, so that a
 * read finds less, and its own deletion removes each folder that it finds empty, which fails a call that removes
 * that folder too, writes into it or lists it.
 */
function replaceWrites(store: Store, directory: string): void {
  store.putObject = async ({ bucket, key, content, metadata }) => {
    const written = await write(join(directory, bucket, `${key}${CONTENT}`), content);
    await store.putMetadata(bucket, key, metadata, written.md5);
    return written;
  };
  store.putPart = async (bucket, upload, part, content) => {
    const path = join(directory, bucket, '._S3rver_uploads', upload, String(part));
    const written = await write(path, content);
    await writeFile(`${path}.md5`, written.md5);
    return written;
  };
  store.deleteObject = async (bucket, key) => {
    for (const end of FILES) rmSync(join(directory, bucket, `${key}${end}`), { force: true });
  };
}

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
  replaceWrites((server as S3rver & { readonly store: Store }).store, directory);
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
