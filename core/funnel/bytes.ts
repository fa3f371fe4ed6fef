import type { NewEntry } from '../log/event-log.ts';
import type { OutputRecord } from '../log/stage.ts';
import { HEADER, retryTopic, TOPIC } from '../log/topics.ts';
import type { ScopeBytes } from '../ports/counters.ts';

/*
 * The bytes of each workspace in the log: those that producers sent, and those that stages wrote for them. Counted as the
 * funnel counts events: a commit of a stage appends what it wrote to `funnel.counts`, so each byte is counted once.
 */

/** The scope of what the profile writes of an organization append: profiles belong to no workspace. */
export function organizationScope(orgId: number): string {
  return `org:${orgId}`;
}

/** The `org_id` in the scope of an organization; undefined for that of a workspace. */
export function orgIdOf(scope: string): number | undefined {
  const [, id] = /^org:(\d+)$/.exec(scope) ?? [];
  return id === undefined ? undefined : Number(id);
}

/** Bytes of a record in the log, apart from what the medium adds or compresses. */
export function recordBytes(record: NewEntry): number {
  return recordChars(record) + Buffer.byteLength(record.value) - record.value.length;
}

/** Characters of a record: of its value, key and headers, which are most of it where the event is elsewhere. */
export function recordChars({ key, value, headers }: NewEntry): number {
  let chars = value.length + key.length;
  for (const name in headers) chars += name.length + (headers[name]?.length ?? 0);
  return chars;
}

/**
 * Bytes for each byte of a record: in the history on SQLite; of an event in a profile, with its published change; of an event that
 * is neither accepted nor rejected yet.
 */
const HISTORY_COPIES = 3;
const PROFILE_COPIES = 5;
export const RECEIVED_COPIES = 6;
/** Of an event in a profile, whatever its size: identities, times of values, and the rest of its profile. */
const PROFILE_BYTES = 2_048;

const HISTORY_TOPICS: ReadonlySet<string> = new Set([TOPIC.violations, TOPIC.deliveriesDead]);
const RETRIES = retryTopic('');

/**
 * Bytes that the stages `validate.slow`, `profile` and `history` write for a record of this size, about. They may be far behind the
 * stages that write it.
 */
export function expectedBytes(topic: string, headers: NewEntry['headers'], bytes: number): number {
  if (topic === TOPIC.accepted || topic === TOPIC.profilesSlow)
    return extendsProfile(headers) ? PROFILE_BYTES + PROFILE_COPIES * bytes : 0;
  if (topic === TOPIC.receivedSlow) return RECEIVED_COPIES * bytes;
  return HISTORY_TOPICS.has(topic) || topic.startsWith(RETRIES) ? HISTORY_COPIES * bytes : 0;
}

function extendsProfile({ [HEADER.type]: type, [HEADER.environment]: environment }: NewEntry['headers']) {
  return environment === 'production' && (type === 'identify' || type === 'group' || type === 'alias');
}

/** The bytes of one commit, by scope. */
export class BytesTally {
  readonly #scopes = new Map<string, { received: number; written: number; expected: number }>();

  get isEmpty(): boolean {
    return this.#scopes.size === 0;
  }

  received(scope: string, bytes: number): void {
    this.#of(scope).received += bytes;
  }

  written(scope: string, bytes: number): void {
    this.#of(scope).written += bytes;
  }

  add({ scope, received, written, expected = 0 }: ScopeBytes): void {
    const sum = this.#of(scope);
    sum.received += received;
    sum.written += written;
    sum.expected += expected;
  }

  /** A stage has written what was expected of it for this record of `topic`. */
  done(topic: string, record: NewEntry): void {
    const { [HEADER.workspaceId]: scope } = record.headers;
    if (scope === undefined) return;
    const expected = expectedBytes(topic, record.headers, recordBytes(record));
    if (expected > 0) this.#of(scope).expected -= expected;
  }

  /** The records that belong to a workspace. Records that follow each other mostly belong to the same one. */
  writtenRecords(outputRecords: readonly OutputRecord[]): void {
    let last: string | undefined;
    let [written, expected] = [0, 0];
    const end = () => {
      if (last !== undefined) this.add({ scope: last, received: 0, written, expected });
      [written, expected] = [0, 0];
    };
    for (const outputRecord of outputRecords) {
      const { topic, headers } = outputRecord;
      const scope = headers[HEADER.workspaceId];
      if (scope !== last) end();
      last = scope;
      if (scope === undefined) continue;
      const bytes = recordBytes(outputRecord);
      written += bytes;
      expected += expectedBytes(topic, headers, bytes);
    }
    end();
  }

  *[Symbol.iterator](): Iterator<ScopeBytes> {
    for (const [scope, { received, written, expected }] of this.#scopes)
      yield { scope, received, written, ...(expected === 0 ? {} : { expected }) };
  }

  #of(scope: string) {
    let found = this.#scopes.get(scope);
    if (found === undefined) {
      found = { received: 0, written: 0, expected: 0 };
      this.#scopes.set(scope, found);
    }
    return found;
  }
}
