import { expect, it } from 'vitest';
import { deadLetteredEntry, deadLetterOf, readDeadLetter } from './dead-letter.ts';
import type { LogEntry } from './event-log.ts';

const AT = '2026-01-01T10:00:00.000Z';
const entry: LogEntry = {
  key: 'k',
  value: '{"a":1}',
  headers: { b: 'c' },
  position: { topic: 't', partition: 1, offset: 2, index: 3 },
  timestamp: 1_700_000_000_000,
};

it('returns the dead-lettered entry, as its stage received it', () => {
  const record = readDeadLetter(deadLetterOf('route', entry, 'broken', AT));
  expect(record).toMatchObject({ stage: 'route', error: 'broken', at: AT });
  expect(record && deadLetteredEntry(record)).toEqual(entry);
});

it('uses the time of dead-lettering for records without another time', () => {
  const { timestamp: _untold, ...record } = JSON.parse(deadLetterOf('route', entry, 'broken', AT).value);
  const read = readDeadLetter({ value: JSON.stringify(record) });
  expect(read && deadLetteredEntry(read)).toEqual({ ...entry, timestamp: Date.parse(AT) });
});

it.each<readonly [string | object, string]>([
  ['', 'no JSON'],
  ['null', 'nothing'],
  ['{}', 'no record'],
  [{ stage: 1 }, 'a stage without a name'],
  [{ at: 'yesterday' }, 'no time'],
  [{ position: { topic: 't', partition: 0 } }, 'no offset'],
  [{ entry: { key: 'k', value: 'v', headers: null } }, 'no headers'],
])('does not take %j for a record: %s', (value, _what) => {
  const record = JSON.parse(deadLetterOf('route', entry, 'broken', AT).value);
  const text = typeof value === 'string' ? value : JSON.stringify({ ...record, ...value });
  expect(readDeadLetter({ value: text })).toBeUndefined();
});
