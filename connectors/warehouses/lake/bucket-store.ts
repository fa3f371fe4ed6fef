import {
  CopyObjectCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import { Unavailable, WarehouseRefused } from '@tributary/core';
import { Deadlines } from '../../client/deadlines.ts';
import type { EgressGuard } from '../../egress/guard.ts';
import { classifyOwnError, ResponseRefused } from '../../failures.ts';
import { openS3, ReadingHandler } from '../../s3/client.ts';
import { classifyS3Failure } from '../../s3/connector.ts';
import type { BucketSettings } from '../../s3/settings.ts';
import { failedCall } from '../tables.ts';
import { checkName, isInLake, type LakeStore, type StoredFile } from './store.ts';

/** Bytes of an object that is read: loaders write smaller ones. */
const MAX_OBJECT_BYTES = 64 * 1_024 * 1_024;
/** Pages of one list, of 1,000 names each: a service may say that there are more for ever. */
const MAX_PAGES = 1_000;
/** Calls carry megabytes: they may take longer than those of other destinations, by this factor. */
const TRANSFER = 6;
/** Codes of a conditional write whose key is there, and of an object that is not. */
const THERE = new Set(['PreconditionFailed']);
const MISSING = new Set(['NoSuchKey', 'NotFound', 'NoSuchVersion']);

/**
 * A lake below a prefix of a bucket. An object is moved by a copy, and then removed: while two processes move it, both copy the
 * same bytes, and once one has removed it the other one finds nothing to copy.
 */
export class BucketStore implements LakeStore {
  /** A copy under way writes what it has read, although its source is gone by then. */
  readonly lateMoveMs = 15_000;
  readonly root: string;
  readonly #client: ReturnType<typeof openS3>['client'];
  readonly #connections: ReturnType<typeof openS3>['connections'];
  readonly #deadlines: Deadlines;
  readonly #bucket: string;
  readonly #prefix: string;

  constructor(egress: EgressGuard, settings: BucketSettings, timeoutMs: number) {
    const { client, connections } = openS3(egress, settings, ReadingHandler, MAX_OBJECT_BYTES);
    this.#client = client;
    this.#connections = connections;
    this.#deadlines = new Deadlines(timeoutMs * TRANSFER);
    this.#bucket = settings.bucket;
    this.#prefix = `${settings.prefix}/`;
    this.root = `s3://${settings.bucket}/${settings.prefix}`;
  }

  read(name: string, signal: AbortSignal): Promise<Uint8Array | undefined> {
    return this.#unless(MISSING, signal, async (abortSignal) => {
      const { Body } = await this.#client.send(new GetObjectCommand(this.#at(name)), { abortSignal });
      if (Body === undefined) throw new ResponseRefused('the answer cannot be understood');
      return Body.transformToByteArray();
    });
  }

  async size(name: string, signal: AbortSignal): Promise<number | undefined> {
    const found = await this.#unless(MISSING, signal, (abortSignal) =>
      this.#client.send(new HeadObjectCommand(this.#at(name)), { abortSignal }),
    );
    return found?.ContentLength;
  }

  async names(folder: string, signal: AbortSignal): Promise<readonly string[]> {
    return (await this.files(folder, signal)).map(({ name }) => name);
  }

  async files(
    folder: string,
    signal: AbortSignal,
    isWanted: (name: string) => boolean = () => true,
  ): Promise<readonly StoredFile[]> {
    const files: StoredFile[] = [];
    for await (const { Contents = [] } of this.#pages({ Prefix: `${this.#keyOf(folder)}/` }, signal))
      for (const { Key = '', Size = 0, LastModified } of Contents) {
        const name = Key.slice(this.#prefix.length);
        if (Key.startsWith(this.#prefix) && isInLake(name) && isWanted(name))
          files.push({ name, bytes: Size, changedAt: LastModified?.getTime() ?? 0 });
      }
    return files;
  }

  async folders(signal: AbortSignal): Promise<readonly string[]> {
    const folders: string[] = [];
    for await (const { CommonPrefixes = [] } of this.#pages({ Prefix: this.#prefix, Delimiter: '/' }, signal))
      for (const { Prefix = '' } of CommonPrefixes) folders.push(Prefix.slice(this.#prefix.length, -1));
    return folders;
  }

  async put(name: string, bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    await this.#run(signal, (abortSignal) =>
      this.#client.send(new PutObjectCommand({ ...this.#at(name), Body: bytes }), { abortSignal }),
    );
  }

  async create(name: string, bytes: Uint8Array, signal: AbortSignal): Promise<boolean> {
    const command = new PutObjectCommand({ ...this.#at(name), Body: bytes, IfNoneMatch: '*' });
    const made = await this.#unless(THERE, signal, (abortSignal) =>
      this.#client.send(command, { abortSignal }),
    );
    return made !== undefined;
  }

  async move(from: string, to: string, signal: AbortSignal): Promise<boolean> {
    const source = `${this.#bucket}/${this.#keyOf(from)}`.split('/').map(encodeURIComponent).join('/');
    const command = new CopyObjectCommand({ ...this.#at(to), CopySource: source });
    const copied = await this.#unless(MISSING, signal, (abortSignal) =>
      this.#client.send(command, { abortSignal }),
    );
    if (copied === undefined) return false;
    await this.remove(from, signal);
    return true;
  }

  async remove(name: string, signal: AbortSignal): Promise<void> {
    await this.#unless(MISSING, signal, (abortSignal) =>
      this.#client.send(new DeleteObjectCommand(this.#at(name)), { abortSignal }),
    );
  }

  async removeFolder(folder: string, signal: AbortSignal): Promise<void> {
    for (const name of await this.names(folder, signal)) await this.remove(name, signal);
  }

  /** The service has what it acknowledged. */
  async settle(): Promise<void> {}

  async close(): Promise<void> {
    this.#client.destroy();
    this.#connections.end();
  }

  #at(name: string) {
    return { Bucket: this.#bucket, Key: this.#keyOf(name) };
  }

  #keyOf(name: string): string {
    checkName(name);
    return `${this.#prefix}${name}`;
  }

  async *#pages(what: { readonly Prefix: string; readonly Delimiter?: string }, signal: AbortSignal) {
    let token: string | undefined;
    for (let pages = 0; pages < MAX_PAGES; pages++) {
      const command = new ListObjectsV2Command({ Bucket: this.#bucket, ...what, ContinuationToken: token });
      const page = await this.#run(signal, (abortSignal) => this.#client.send(command, { abortSignal }));
      yield page;
      token = page.IsTruncated === true ? page.NextContinuationToken : undefined;
      if (token === undefined) return;
    }
    throw new WarehouseRefused(`more than ${MAX_PAGES}000 objects are below ${what.Prefix}`);
  }

  /** Undefined where the service refuses the call with one of these codes. */
  async #unless<T>(
    codes: ReadonlySet<string>,
    signal: AbortSignal,
    call: (signal: AbortSignal) => Promise<T>,
  ): Promise<T | undefined> {
    return this.#run(signal, async (abortSignal) => {
      try {
        return await call(abortSignal);
      } catch (error) {
        if (error instanceof Error && codes.has(error.name)) return undefined;
        throw error;
      }
    });
  }

  async #run<T>(signal: AbortSignal, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (signal.aborted) throw new Unavailable('stopped');
    const deadline = this.#deadlines.begin(signal);
    try {
      return await call(deadline.signal);
    } catch (error) {
      throw failureOf(deadline.reason ?? error, this.#connections.lastFailure);
    } finally {
      this.#deadlines.end(deadline);
    }
  }
}

function failureOf(error: unknown, lastFailure: Error | undefined): unknown {
  if (error instanceof WarehouseRefused) return error;
  return failedCall(classifyOwnError(error) ?? classifyS3Failure(error, lastFailure, Date.now()), error);
}
