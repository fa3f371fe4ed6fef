import { inflateRawSync } from 'node:zlib';

/*
 * A reader of Avro containers that shares no code with the loader: names of fields, numbers as doubles, no bounds.
 */

type Schema = string | readonly Schema[] | { readonly [name: string]: unknown };
type Value = unknown;

/** The records of a container. */
export function avroRecords(bytes: Buffer): readonly Readonly<Record<string, Value>>[] {
  let at = 4;
  let buffer = bytes;
  const take = (size: number) => {
    at += size;
    return buffer.subarray(at - size, at);
  };
  const long = () => {
    let [value, shift, byte] = [0n, 0n, 0x80];
    while (byte >= 0x80) {
      byte = buffer[at++] ?? 0;
      value |= BigInt(byte & 0x7f) << shift;
      shift += 7n;
    }
    return Number((value >> 1n) ^ -(value & 1n));
  };
  const text = () => take(long()).toString('utf8');
  const decoded = (schema: Schema): Value => {
    if (Array.isArray(schema)) return decoded(schema[long()]);
    const type = typeof schema === 'string' ? schema : (schema as { type: Schema }).type;
    if (typeof type !== 'string') return decoded(type);
    const { fields = [], items = 'null' } = (typeof schema === 'string' ? {} : schema) as {
      fields?: readonly { name: string; type: Schema }[];
      items?: Schema;
    };
    switch (type) {
      case 'null':
        return null;
      case 'boolean':
        return take(1)[0] === 1;
      case 'int':
      case 'long':
        return long();
      case 'string':
        return text();
      case 'bytes':
        return take(long());
      case 'record':
        return Object.fromEntries(fields.map((field) => [field.name, decoded(field.type)]));
      case 'array': {
        const values: Value[] = [];
        for (let left = long(); left > 0; left = long()) for (; left > 0; left--) values.push(decoded(items));
        return values;
      }
      default:
        throw new Error(`no reader of the type ${type}`);
    }
  };

  const header = new Map<string, string>();
  for (let left = long(); left > 0; left = long()) for (; left > 0; left--) header.set(text(), text());
  const schema: Schema = JSON.parse(header.get('avro.schema') ?? '');
  at += 16;
  const records: Readonly<Record<string, Value>>[] = [];
  while (at < bytes.length) {
    const count = long();
    const block = inflateRawSync(take(long()));
    const next = at + 16;
    [buffer, at] = [block, 0];
    for (let left = count; left > 0; left--) records.push(decoded(schema) as Readonly<Record<string, Value>>);
    [buffer, at] = [bytes, next];
  }
  return records;
}
