import type { ResultLine, VolumeRecord } from './results.ts';

const BAR = 40;

/** A progress line that overwrites itself. */
export function progressLine(done: number, all: number, what: string): string {
  const filled = Math.round((done / all) * BAR);
  return `\r${what} ${'█'.repeat(filled)}${'░'.repeat(BAR - filled)} ${done.toLocaleString('en')} of ${all.toLocaleString('en')}`;
}

/** The results beside the expected ones. */
export function answersTable(lines: readonly ResultLine[]): string {
  const rows = lines.map(({ what, answer, expected }) => [
    what.padEnd(30),
    answer.toLocaleString('en').padStart(12),
    expected.toLocaleString('en').padStart(12),
    answer === expected ? '  ✓' : '  ✗',
  ]);
  return [
    ['', 'answer'.padStart(42), 'expected'.padStart(12)].join(''),
    ...rows.map((row) => row.join('')),
  ].join('\n');
}

/** Volume by hour and name as horizontal bars. */
export function volumeChart(volume: readonly VolumeRecord[]): string {
  const most = Math.max(1, ...volume.map(({ event_count }) => event_count));
  let hour = '';
  return volume
    .map(({ event_type, event_name, hour_bucket, event_count }) => {
      const heading = hour_bucket === hour ? '' : `${hour_bucket.slice(0, 13).replace('T', ' ')}:00 UTC\n`;
      hour = hour_bucket;
      const bar = '█'.repeat(Math.max(1, Math.round((event_count / most) * BAR)));
      return `${heading}  ${(event_name || event_type).padEnd(18)} ${bar} ${event_count.toLocaleString('en')}`;
    })
    .join('\n');
}
