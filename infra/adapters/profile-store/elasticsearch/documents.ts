import type { ProfileScope } from '@tributary/core';

/** Of a document as it was read or written: grows with every write, and is never the same for two contents. */
export interface DocumentVersion {
  readonly seqNo: number;
  readonly primaryTerm: number;
}

/** What Elasticsearch keeps. The sweeper can search by all but the last two, which nobody indexes. */
export interface DocumentSource {
  readonly state: 'claim' | 'live' | 'redirect' | 'folded' | 'deleted' | 'publisher';
  readonly org?: number;
  readonly region?: string;
  /** Epoch ms. */
  readonly updated_ts?: number;
  /** True of a tombstone that may still have something of its person beside it. */
  readonly dirty?: boolean;
  /** Who has yet to publish a change of this document, and which of its changes it is. */
  readonly pending_by?: string;
  readonly pending_n?: number;
  /** Of a claim: when its identity was deleted, epoch ms. */
  readonly deleted_ts?: number;
  readonly body: string;
}

export interface StoredDocument {
  readonly version: DocumentVersion;
  readonly source: DocumentSource;
}

/** One compare-and-set: done if the document is at `expected` (`absent`: if there is none), else nothing happens. */
export interface DocumentWrite {
  readonly id: string;
  readonly expected: DocumentVersion | 'absent';
  /** `removed`: the document goes; only with an expected version. */
  readonly source: DocumentSource | 'removed';
}

/** The version that was written, or `conflict`: the document is at another one. */
export type WriteResult = DocumentVersion | 'conflict';

/** Which documents the sweeper looks for. Of what was written in the last seconds some may be missing. */
export interface DocumentQuery {
  readonly state?: readonly DocumentSource['state'][];
  readonly dirty?: boolean;
  /** `updated_ts` is lower. */
  readonly before?: number;
  readonly pending?: { readonly by: string; readonly after: number };
  /** At most so many, those with the lowest `updated_ts` first. */
  readonly limit: number;
}

/**
 * Documents by id: all that the protocol needs of Elasticsearch.
 *
 * - A read shows every write that was acknowledged before it began. It may also show one that is **not durable yet**, and
 *   that a crash of a node takes back.
 * - A write that is acknowledged (`DocumentVersion`) is durable, and so is everything that the document was before it.
 * - The writes of one call are independent: any of them may be done, in any order, and others not.
 *
 * Errors: `Unavailable` from `write` when the outcome of any of them is unknown: each may have been done, may be done
 * later, or never. `Unavailable` from `read` and `find` when nobody answers.
 */
export interface Documents {
  /** In the order of `ids`, undefined for what is not there. */
  read(ids: readonly string[]): Promise<readonly (StoredDocument | undefined)[]>;
  /** In the order of `writes`, no document twice. */
  write(writes: readonly DocumentWrite[]): Promise<readonly WriteResult[]>;
  find(query: DocumentQuery): Promise<readonly string[]>;
  /**
   * Whether any document is `live`, or a `redirect`, which still may be; in the scope where there is one. No write that
   * was acknowledged before the call is missing.
   */
  holdsLive(scope: ProfileScope | undefined): Promise<boolean>;
}
