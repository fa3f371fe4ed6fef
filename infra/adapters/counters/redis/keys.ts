import { type CountDocumentKey, type CountedPartition, documentKeptMs } from '@tributary/core';
import { checkKeyPrefix } from '../../redis/index.ts';

/** The keys of the counters, which are all in one slot. */
export class CounterKeys {
  /** Another one after each change of documents. */
  readonly version: string;
  /** Sorted set: the last use of each key. */
  readonly uses: string;
  readonly #tag: string;

  constructor(prefix: string) {
    this.#tag = `{${checkKeyPrefix(prefix)}f}`;
    this.version = `${this.#tag}version`;
    this.uses = `${this.#tag}uses`;
  }

  applied({ topic, partition }: CountedPartition): string {
    return `${this.#tag}applied:${topic}/${partition}`;
  }

  /** The hash of a workspace and interval, with a field for each of its documents. */
  hash({ workspaceId, kind, start }: Omit<CountDocumentKey, 'field'>): string {
    return `${this.#tag}${kind}:${start}:${workspaceId}`;
  }
}

/** When the hash of a document expires, epoch seconds. */
export function expiryOf({ kind, start }: Pick<CountDocumentKey, 'kind' | 'start'>): number {
  return Math.ceil((start + documentKeptMs(kind)) / 1_000);
}
