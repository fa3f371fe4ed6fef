import { randomUUID } from 'node:crypto';
import { Unavailable, WarehouseRefused } from '@tributary/core';
import type { EgressGuard } from '../../egress/guard.ts';
import { type BucketClient, openBucketClient } from '../../s3/client.ts';
import { classifyS3Failure } from '../../s3/connector.ts';
import type { BucketSettings } from '../../s3/settings.ts';
import type { RowsFile } from '../merging/dialect.ts';

/** One file is put or removed within this time, ms. */
const CALL_MS = 60_000;
/** Files that could not be removed and are tried again; of more the lifecycle rule of the bucket takes care. */
const MAX_LEFT = 1_000;

/** The files of loads in a bucket. Each attempt has a path of its own, so that none reads the files of another. */
export class StagedFiles {
  readonly #client: BucketClient;
  readonly #settings: BucketSettings;
  readonly #destinationId: string;
  /** Keys by batch. */
  readonly #staged = new Map<string, string[]>();
  #left: readonly string[] = [];

  constructor(egress: EgressGuard, settings: BucketSettings, destinationId: string) {
    this.#client = openBucketClient(egress, settings);
    this.#settings = settings;
    this.#destinationId = destinationId;
  }

  /** Resolves with the key of the manifest of a file. */
  async upload({ body }: RowsFile, batch: string, signal: AbortSignal): Promise<string> {
    const { bucket, prefix } = this.#settings;
    const folder = `${prefix}/${this.#destinationId}/${batch}-${randomUUID()}`;
    const [rows, manifest] = [`${folder}/rows.json.gz`, `${folder}/manifest.json`];
    const [id = batch] = batch.split('/');
    this.#staged.set(id, [...(this.#staged.get(id) ?? []), rows, manifest]);
    const entries = [{ url: `s3://${bucket}/${rows}`, mandatory: true }];
    await this.#call(signal, (until) => this.#client.put(rows, body, until));
    await this.#call(signal, (until) =>
      this.#client.put(manifest, Buffer.from(JSON.stringify({ entries })), until),
    );
    return manifest;
  }

  /** Removes the files of a batch. Those that cannot be removed are tried again at the next call. */
  async remove(batch: string, signal: AbortSignal): Promise<void> {
    const keys = [...this.#left, ...(this.#staged.get(batch) ?? [])];
    this.#staged.delete(batch);
    const removed = await Promise.allSettled(keys.map((key) => this.#remove(key, signal)));
    this.#left = keys.filter((_, at) => removed[at]?.status === 'rejected').slice(-MAX_LEFT);
  }

  /** Rejects where they cannot be removed. */
  async removeNow(batch: string, signal: AbortSignal): Promise<void> {
    for (const key of this.#staged.get(batch) ?? []) await this.#remove(key, signal);
    this.#staged.delete(batch);
  }

  async close(): Promise<void> {
    await this.#client.close();
  }

  #remove(key: string, signal: AbortSignal): Promise<void> {
    return this.#call(signal, (until) => this.#client.delete(key, until));
  }

  async #call(signal: AbortSignal, call: (until: AbortSignal) => Promise<void>): Promise<void> {
    const timeout = AbortSignal.timeout(CALL_MS);
    try {
      await call(AbortSignal.any([signal, timeout]));
    } catch (error) {
      if (signal.aborted) throw new Unavailable('stopped', { cause: error });
      if (timeout.aborted) throw new Unavailable('the bucket: timed out', { cause: error });
      const result = classifyS3Failure(error, this.#client.lastFailure, Date.now());
      if (result === undefined) throw error;
      const reason = `the bucket: ${'reason' in result ? result.reason : result.outcome}`;
      throw result.outcome === 'dead'
        ? new WarehouseRefused(reason, { cause: error })
        : new Unavailable(reason, { cause: error });
    }
  }
}
