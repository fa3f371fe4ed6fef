import { expect, test } from 'vitest';
import { dayOf, fileName, latestNumber } from './file-name.ts';

test('names sort in the order of writing', () => {
  const names = [
    fileName('2024-02-29', 1),
    fileName('2024-02-29', 2),
    fileName('2024-02-29', 10),
    fileName('2024-03-01', 1),
  ];
  expect(names).toEqual([...names].sort());
  expect(names[0]).toBe('2024-02-29-000001.ndjson');
});

test('a day ends at midnight UTC', () => {
  expect(dayOf(Date.parse('2024-02-29T23:59:59.999Z'))).toBe('2024-02-29');
  expect(dayOf(Date.parse('2024-03-01T00:00:00Z'))).toBe('2024-03-01');
});

test('the latest number is that of the day, whatever else lies there', () => {
  const names = [
    '2024-02-28-000009.ndjson',
    '2024-02-29-000002.ndjson',
    '2024-02-29-000010.ndjson',
    '2024-02-29-11.txt',
  ];
  expect(latestNumber(names, '2024-02-29')).toBe(10);
  expect(latestNumber(names, '2024-03-01')).toBe(1);
});
