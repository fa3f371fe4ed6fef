import { type CountedPartition, type FunnelDocumentKey, funnelKeptMs } from '@tributary/core';
import { checkKeyPrefix } from '../../redis/index.ts';

/** The keys of the funnel, which are all in one slot. */
export class FunnelKeys {
  /** Another one after each change of documents. */
  readonly version: string;
  readonly #tag: string;

  constructor(prefix: string) {
    this.#tag = `{${checkKeyPrefix(prefix)}f}`;
    this.version = `${this.#tag}version`;
  }

  applied({ topic, partition }: CountedPartition): string {
    return `${this.#tag}applied:${topic}/${partition}`;
  }

  /** The hash of a workspace and interval, with a field for each of its documents. */
  hash({ workspaceId, kind, start }: Omit<FunnelDocumentKey, 'field'>): string {
    return `${this.#tag}${kind}:${start}:${workspaceId}`;
  }
}

/** When the hash of a document expires, epoch seconds. */
export function expiryOf({ kind, start }: Pick<FunnelDocumentKey, 'kind' | 'start'>): number {
  return Math.ceil((start + funnelKeptMs(kind)) / 1_000);
}
