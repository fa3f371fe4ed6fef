import type { NewEntry } from '../log/event-log.ts';
import type { OutputRecord } from '../log/stage.ts';
import { HEADER } from '../log/topics.ts';
import type { ScopeBytes } from '../ports/funnel-store.ts';

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

/** The bytes of one commit, by scope. */
export class BytesTally {
  readonly #scopes = new Map<string, { received: number; written: number }>();

  get isEmpty(): boolean {
    return this.#scopes.size === 0;
  }

  received(scope: string, bytes: number): void {
    this.#of(scope).received += bytes;
  }

  written(scope: string, bytes: number): void {
    this.#of(scope).written += bytes;
  }

  add({ scope, received, written }: ScopeBytes): void {
    const sum = this.#of(scope);
    sum.received += received;
    sum.written += written;
  }

  /** The records that belong to a workspace. Records that follow each other mostly belong to the same one. */
  writtenRecords(outputRecords: readonly OutputRecord[]): void {
    let last: string | undefined;
    let sum = 0;
    for (const outputRecord of outputRecords) {
      const scope = outputRecord.headers[HEADER.workspaceId];
      if (scope !== last) {
        if (last !== undefined) this.written(last, sum);
        last = scope;
        sum = 0;
      }
      if (scope !== undefined) sum += recordBytes(outputRecord);
    }
    if (last !== undefined) this.written(last, sum);
  }

  *[Symbol.iterator](): Iterator<ScopeBytes> {
    for (const [scope, { received, written }] of this.#scopes) yield { scope, received, written };
  }

  #of(scope: string) {
    let found = this.#scopes.get(scope);
    if (found === undefined) {
      found = { received: 0, written: 0 };
      this.#scopes.set(scope, found);
    }
    return found;
  }
}
