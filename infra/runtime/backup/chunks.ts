import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { promisify } from 'node:util';
import { constants, gunzip, gzip } from 'node:zlib';
import { type BackedUpFile, BackupFault, type ChunkReference, chunkKey, digestOf } from './manifest.ts';
import type { BackupTarget } from './target.ts';

/** Plain bytes of a chunk: few objects for a large file, and little to store again when a page of it changes. */
const CHUNK_BYTES = 4 * 1024 * 1024;
/** Chunks that are compressed and stored at the same time. */
const CONCURRENCY = 4;

const compress = promisify(gzip);
const inflate = promisify(gunzip);

/** Stores files as chunks. A chunk that the target has already is not stored again. */
export class ChunkWriter {
  readonly #target: BackupTarget;
  readonly #stored: Map<string, number>;
  /** Bytes of chunks that this backup stored, and of those that were there. */
  storedBytes = 0;
  reusedBytes = 0;

  /**
   * `stored`: the sizes of the chunks in the target, by key. One that has another size than the files of an earlier backup
   * say is stored again.
   */
  constructor(target: BackupTarget, stored: ReadonlyMap<string, number>, earlier: readonly BackedUpFile[]) {
    this.#target = target;
    this.#stored = new Map(stored);
    for (const { sha256, storedBytes } of earlier.flatMap(({ chunks }) => chunks))
      if (stored.get(chunkKey(sha256)) !== storedBytes) this.#stored.delete(chunkKey(sha256));
  }

  /** True if the target has all chunks of the file of an earlier backup. */
  has(file: BackedUpFile): boolean {
    return file.chunks.every(({ sha256 }) => this.#stored.has(chunkKey(sha256)));
  }

  /** Counts the chunks of a file that is taken over from an earlier backup. */
  reuse(file: BackedUpFile): BackedUpFile {
    for (const { storedBytes } of file.chunks) this.reusedBytes += storedBytes;
    return file;
  }

  /** Stores the bytes that the file has at the call; bytes appended meanwhile are left to the next backup. */
  async write(path: string, source: string): Promise<BackedUpFile> {
    const whole = createHash('sha256');
    const chunks: Promise<ChunkReference>[] = [];
    let bytes = 0;
    const handle = await open(source, 'r');
    try {
      const { size } = await handle.stat();
      while (bytes < size) {
        const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, size - bytes));
        const { bytesRead } = await handle.read(buffer, 0, buffer.length, bytes);
        if (bytesRead < buffer.length)
          throw new BackupFault(`${source} became shorter while it was read: start the backup again`);
        whole.update(buffer);
        bytes += bytesRead;
        const chunk = this.#store(buffer);
        chunks.push(chunk);
        chunk.catch(() => {}); // reported by an await below
        await chunks.at(-CONCURRENCY);
      }
      return { path, bytes, sha256: whole.digest('hex'), chunks: await Promise.all(chunks) };
    } finally {
      await Promise.allSettled(chunks);
      await handle.close();
    }
  }

  async #store(content: Buffer): Promise<ChunkReference> {
    const sha256 = digestOf(content);
    const key = chunkKey(sha256);
    const known = this.#stored.get(key);
    if (known !== undefined) {
      this.reusedBytes += known;
      return { sha256, storedBytes: known };
    }
    const packed = await compress(content, { level: constants.Z_BEST_SPEED });
    await this.#target.put(key, packed);
    this.#stored.set(key, packed.length);
    this.storedBytes += packed.length;
    return { sha256, storedBytes: packed.length };
  }
}

/** Reads a file back, chunk by chunk, each checked. `BackupFault` at the first damage; the last check is the whole file's. */
export async function* readChunks(target: BackupTarget, file: BackedUpFile): AsyncGenerator<Buffer> {
  const whole = createHash('sha256');
  for (const { sha256 } of file.chunks) {
    const content = await readChunk(target, file.path, sha256);
    whole.update(content);
    yield content;
  }
  if (whole.digest('hex') !== file.sha256)
    throw new BackupFault(`${file.path} is damaged in ${target.name}: its checksum is another`);
}

async function readChunk(target: BackupTarget, path: string, sha256: string): Promise<Buffer> {
  const key = chunkKey(sha256);
  const packed = await target.get(key);
  if (packed === undefined)
    throw new BackupFault(`${path} is incomplete in ${target.name}: ${key} is missing`);
  const content = await inflate(packed).catch(() => undefined);
  if (content === undefined || digestOf(content) !== sha256)
    throw new BackupFault(`${path} is damaged in ${target.name}: the checksum of ${key} is another`);
  return content;
}
