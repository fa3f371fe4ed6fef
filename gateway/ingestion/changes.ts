import type { JsonObject } from '@tributary/core';
import type { Fault } from '../request-body/parse-json.ts';

/**
 * A change that was needed to accept an event of a sender that cannot correct it: `context.tributary.changed` lists it.
 * `path`: a JSON pointer into the call or payload as sent, or with `in: "body"` into the fields beside `batch`; of a webhook also
 * the name of a header.
 */
export interface Change {
  readonly path: string;
  readonly change: keyof typeof CHANGES;
  readonly in?: 'body';
}

const CHANGES = {
  replaced: 'half of a surrogate pair, or bytes that are no UTF-8, became U+FFFD',
  last_taken: 'the key was given twice: the last value counts',
  left_out: 'the key `__proto__` was left out, with its value',
  as_text: 'the value became text: its JSON, or the digits of a number',
  moved: 'the value is no object and is in `context.segment` instead',
  id_shortened: 'the id of the message is too long: the event has one made of it, and its context the whole',
  time_unreadable: 'the time cannot be read: the event has the next best, and keeps what was sent',
} as const;

const OF_FAULTS: Readonly<Record<Fault['kind'], Change['change']>> = {
  not_utf8: 'replaced',
  half_pair: 'replaced',
  key_twice: 'last_taken',
  key_left_out: 'left_out',
  too_deep: 'as_text',
  out_of_range: 'as_text',
};

const MAX_CHANGES = 20;
/** Bytes of their paths together, at most. */
const MAX_PATHS_BYTES = 2_048;

export function changesOf(faults: readonly Fault[], where: 'call' | 'body'): readonly Change[] {
  return faults.map(({ kind, path }) => ({
    path,
    change: OF_FAULTS[kind],
    ...(where === 'body' ? { in: where } : {}),
  }));
}

export function noteOf(changes: readonly Change[]): JsonObject {
  const changed: JsonObject[] = [];
  let bytes = 0;
  for (const change of changes.slice(0, MAX_CHANGES)) {
    bytes += Buffer.byteLength(JSON.stringify(change.path));
    if (bytes > MAX_PATHS_BYTES) break;
    changed.push({ ...change });
  }
  return { changed };
}
