import { type Headers, type LogEntry, unpack, type ValueFraming } from '@tributary/core';
import type { Cursor, Taken } from '../../stage-runner/cursor.ts';
import type { RecordRead } from '../client/protocol.ts';

export interface EntriesOf {
  /** Without an installation's prefix. */
  readonly topic: string;
  readonly partition: number;
  readonly packed: boolean;
  readonly framing: ValueFraming;
}

/** The entries of records, from the cursor on. */
export function entriesOf(
  records: readonly RecordRead[],
  { topic, partition, packed, framing }: EntriesOf,
  from: Cursor,
): Taken[] {
  const taken: Taken[] = [];
  for (const record of records) {
    const offset = Number(record.offset);
    const key = record.key?.toString('utf8') ?? '';
    const headers = headersOf(record);
    const timestamp = Number(record.timestamp);
    const text = record.value === null ? '' : framing.unframe(topic, record.value);
    const values = packed ? unpack(text) : [text];
    const first = offset === from.offset ? from.index : 0;
    for (let index = first; index < values.length; index++) {
      const entry: LogEntry = {
        position: { topic, partition, offset, index },
        key,
        value: values[index] ?? '',
        headers,
        timestamp,
      };
      const isLast = index === values.length - 1;
      taken.push({ entry, after: isLast ? { offset: offset + 1, index: 0 } : { offset, index: index + 1 } });
    }
  }
  return taken;
}

/** Of a header that stands there more than once the last one counts. */
function headersOf(record: RecordRead): Headers {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(record.headers)) {
    const last = Array.isArray(value) ? value.at(-1) : value;
    if (Buffer.isBuffer(last)) headers[name] = last.toString('utf8');
  }
  return headers;
}
