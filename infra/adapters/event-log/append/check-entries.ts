import { InvalidInput, MAX_VALUE_BYTES, type NewEntry, type TopicSpec } from '@tributary/core';

/** What an entry costs beside its texts. */
const ENTRY_BYTES = 64;

/** The bytes of the entries; `InvalidInput` when the topic can never take one of them. */
export function checkEntries(spec: TopicSpec, entries: readonly NewEntry[]): number {
  let bytes = 0;
  for (const { key, value } of entries) {
    const size = Buffer.byteLength(value);
    if (size > MAX_VALUE_BYTES) {
      throw new InvalidInput(`a value of ${size} bytes is more than ${MAX_VALUE_BYTES} on ${spec.name}`);
    }
    if (spec.packed && value.includes('\n'))
      throw new InvalidInput(`a raw newline in a value on ${spec.name}`);
    bytes += size + key.length + ENTRY_BYTES;
  }
  return bytes;
}
