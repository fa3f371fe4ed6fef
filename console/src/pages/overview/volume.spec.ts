import { describe, expect, it } from 'vitest';
import { MAX_SERIES, volumeOf } from './volume.ts';

const NOW = Date.parse('2026-03-10T12:30:00Z');

function volume(type: 'track' | 'identify' | 'page', name: string, hour: string, count: number) {
  return {
    event_type: type,
    event_name: name,
    hour_bucket: `2026-03-${hour}:00:00.000Z`,
    event_count: count,
  };
}

describe('the volume as bars', () => {
  it('has one bar an hour for a day, also where nothing came', () => {
    const { bars, total, kinds, series } = volumeOf(
      [volume('track', 'Order.Completed', '10T11', 3), volume('identify', '', '10T12', 2)],
      { range: '24h', by: 'name', now: NOW, hours: 24 },
    );
    expect(bars).toHaveLength(24);
    expect(bars.at(-1)).toEqual({ start: Date.parse('2026-03-10T12:00:00Z'), counts: { kind1: 2 } });
    expect(bars.at(-2)?.counts).toEqual({ kind0: 3 });
    expect(series).toEqual([
      { key: 'kind0', label: 'Order.Completed' },
      { key: 'kind1', label: 'identify' },
    ]);
    expect(total).toBe(5);
    expect(kinds.map(({ label, count }) => `${label} ${count}`)).toEqual(['Order.Completed 3', 'identify 2']);
  });

  it.each([
    ['7d', 168, 28, 29],
    ['30d', 720, 30, 31],
  ] as const)('adds the hours of %s up', (range, hours, least, most) => {
    const hourly = Array.from({ length: hours }, (_, ago) => ({
      event_type: 'track' as const,
      event_name: 'A',
      hour_bucket: new Date(Date.parse('2026-03-10T12:00:00Z') - ago * 3_600_000).toISOString(),
      event_count: 1,
    }));
    const { bars } = volumeOf(hourly, { range, by: 'type', now: NOW, hours });
    expect(bars.length).toBeGreaterThanOrEqual(least);
    expect(bars.length).toBeLessThanOrEqual(most);
    expect(bars.reduce((sum, { counts }) => sum + (counts.kind0 ?? 0), 0)).toBe(hours);
  });

  it('gives the largest kinds a colour each, and the others one', () => {
    const hourly = Array.from({ length: 10 }, (_, index) => volume('track', `E${index}`, '10T12', index + 1));
    const { series, bars, kinds } = volumeOf(hourly, { range: '24h', by: 'name', now: NOW, hours: 24 });
    expect(series).toHaveLength(MAX_SERIES);
    expect(series.at(-1)).toEqual({ key: 'others', label: 'All others' });
    expect(bars.at(-1)?.counts).toMatchObject({ kind0: 10, others: 1 + 2 + 3 + 4 + 5 });
    expect(kinds).toHaveLength(10);
  });
});
