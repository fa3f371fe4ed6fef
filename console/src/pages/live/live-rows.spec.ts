import { describe, expect, it } from 'vitest';
import { type EventRow, LiveRows, MAX_ROWS } from './live-rows.ts';

const eventJson = (index: number, more: object = {}) =>
  JSON.stringify({
    message_id: `m${index}`,
    type: 'track',
    event: `Event ${index % 2}`,
    user_id: 'ada',
    outcome: 'accepted',
    violations: [],
    ...more,
  });

function rowsWith(count: number): LiveRows {
  const rows = new LiveRows();
  for (let index = 0; index < count; index++) rows.add({ kind: 'event', json: eventJson(index) });
  rows.flush();
  return rows;
}

const idsOf = ({ snapshot }: LiveRows) =>
  snapshot.rows.map((row) => (row.kind === 'event' ? row.messageId : row.text));

describe('rows of the live page', () => {
  it('are shown newest first, once flushed', () => {
    const rows = new LiveRows();
    rows.add({ kind: 'event', json: eventJson(1) });
    rows.add({ kind: 'event', json: eventJson(2) });
    expect(idsOf(rows)).toEqual([]);
    expect(rows.flush()).toBe(true);
    expect(idsOf(rows)).toEqual(['m2', 'm1']);
    expect(rows.flush()).toBe(false);
  });

  it('are bounded in number', () => {
    const rows = rowsWith(0);
    for (let round = 0; round < 30; round++) {
      for (let index = 0; index < 100; index++)
        rows.add({ kind: 'event', json: eventJson(round * 100 + index) });
      rows.flush();
    }
    expect(rows.snapshot.rows).toHaveLength(MAX_ROWS);
    expect(idsOf(rows)[0]).toBe('m2999');
    expect(rows.snapshot.received).toBe(3_000);
  });

  it('are bounded in characters', () => {
    const rows = new LiveRows();
    for (let index = 0; index < 60; index++)
      rows.add({ kind: 'event', json: eventJson(index, { properties: { text: 'x'.repeat(1024 * 1024) } }) });
    rows.flush();
    expect(rows.snapshot.rows).toHaveLength(15);
    expect(idsOf(rows)[0]).toBe('m59');
  });

  it('wait while held, and are counted beyond the bound', () => {
    const rows = rowsWith(3);
    rows.hold(true);
    for (let index = 0; index < 2_000; index++) rows.add({ kind: 'event', json: eventJson(index) });
    rows.flush();
    expect(rows.snapshot.rows).toHaveLength(3);
    expect(rows.snapshot.waiting).toBe(2_000);
    rows.hold(false);
    rows.flush();
    expect(rows.snapshot.waiting).toBe(0);
    const notice = rows.snapshot.rows.find(({ kind }) => kind === 'notice');
    const shown = rows.snapshot.rows.filter((row): row is EventRow => row.kind === 'event');
    expect(notice).toMatchObject({
      text: expect.stringMatching(/^1,\d{3} events came while the list was held/),
    });
    expect(shown[0]?.messageId).toBe('m1999');
  });

  it.each([
    [{ name: 'event 1' }, 'm3'],
    [{ type: 'identify' as const }, 'i'],
    [{ outcome: 'rejected' as const }, 'r'],
    [{ q: 'NEEDLE' }, 'n'],
  ])('are narrowed by %j, those present and those that arrive', (filter, first) => {
    const rows = rowsWith(4);
    rows.add({ kind: 'event', json: eventJson(0, { message_id: 'i', type: 'identify' }) });
    rows.add({ kind: 'event', json: eventJson(0, { message_id: 'r', outcome: 'rejected' }) });
    rows.add({ kind: 'event', json: eventJson(0, { message_id: 'n', traits: { a: 'a needle' } }) });
    rows.flush();
    rows.filter(filter);
    expect(idsOf(rows)[0]).toBe(first);
    rows.add({ kind: 'event', json: eventJson(8, { message_id: 'no', type: 'page', name: 'x' }) });
    rows.add({ kind: 'missed', count: 3 });
    rows.flush();
    expect(idsOf(rows)).not.toContain('no');
    expect(idsOf(rows)[0]).toMatch(/^3 events missing here/);
  });

  it('keep matching rows that others would have pushed out', () => {
    const rows = rowsWith(0);
    rows.filter({ outcome: 'rejected' });
    rows.add({ kind: 'event', json: eventJson(0, { message_id: 'rare', outcome: 'rejected' }) });
    for (let index = 0; index < 3 * MAX_ROWS; index++) {
      rows.add({ kind: 'event', json: eventJson(index) });
      if (index % 50 === 0) rows.flush();
    }
    rows.flush();
    expect(idsOf(rows)).toEqual(['rare']);
    expect(rows.find('rare')?.outcome).toBe('rejected');
  });

  it('leave out messages that are not events', () => {
    const rows = new LiveRows();
    rows.add({ kind: 'event', json: '<script>' });
    rows.add({ kind: 'event', json: JSON.stringify({ event: { no: 'text' }, violations: 'none' }) });
    rows.flush();
    expect(rows.snapshot.rows).toMatchObject([{ messageId: '', name: '', violations: 0 }]);
  });

  it('have the rate of the last ten seconds', () => {
    let now = 1_000_000;
    const rows = new LiveRows(() => now);
    for (let index = 0; index < 50; index++) rows.add({ kind: 'event', json: eventJson(index) });
    const received_at = new Date(now - 600_000).toISOString();
    rows.add({ kind: 'event', json: eventJson(51, { received_at }) });
    rows.flush();
    expect(rows.snapshot.rate).toBe(5);
    now += 20_000;
    rows.flush();
    expect(rows.snapshot.rate).toBe(0);
  });
});
