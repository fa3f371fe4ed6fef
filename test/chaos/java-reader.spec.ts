import { expect, it } from 'vitest';
import { jsonOf, parseRecord } from './java-reader.ts';

it('reads the fields of a printed record', () => {
  const printed =
    'Partition:2\u001fOffset:71\u001fmessage-id:a:b\u001dtype:track\u001f\u0000\u0000\u0000\u0000\n{"a":1}';
  const record = parseRecord(printed);
  expect(record).toMatchObject({ partition: 2, offset: 71 });
  expect([...record.headers]).toEqual([
    ['message-id', 'a:b'],
    ['type', 'track'],
  ]);
  expect(jsonOf(record.value)).toEqual({ a: 1 });
});

it('refuses a malformed record', () => {
  expect(() => parseRecord('Processed a total of 3 messages')).toThrow('not a record');
});
