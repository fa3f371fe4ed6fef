import { expect, test } from 'vitest';
import { createTable, insertStatement } from './client.ts';

test('a name in SQL is quoted, whatever it holds', () => {
  const types = { id: 'uuid', text: 'text', time: 'timestamptz', integer: 'integer', json: 'jsonb' };
  expect(createTable('app.events', types)).toMatch(
    /^create table if not exists "app"."events" \("delivery_id" uuid primary key,/,
  );
  expect(insertStatement('a"b', types)).toContain('insert into "a""b" (');
});
