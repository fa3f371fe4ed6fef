/** One line of the bench: a figure, its baseline from the same run, and the bar. */
export interface BenchRow {
  readonly path: string;
  readonly figure: string;
  readonly baseline: string;
  /** Figure over baseline, where one exists. */
  readonly ratio: number | null;
  readonly bar: string;
  readonly holds: boolean | null;
  readonly note?: string;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function perSecond(value: number): string {
  return `${Math.round(value).toLocaleString('en')}/s`;
}

export function drawTable(rows: readonly BenchRow[]): string {
  const head = ['path', 'figure', 'baseline', 'ratio', 'bar', ''];
  const cells = rows.map(({ path, figure, baseline, ratio, bar, holds, note }) => [
    path,
    figure,
    baseline,
    ratio === null ? '-' : ratio.toFixed(2),
    bar,
    `${holds === null ? '' : holds ? 'holds' : 'MISSED'}${note === undefined ? '' : ` ${note}`}`.trim(),
  ]);
  const widths = head.map((_, column) =>
    Math.max(...[head, ...cells].map((row) => (row[column] ?? '').length)),
  );
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  return [line(head), `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...cells.map(line)].join(
    '\n',
  );
}

/** The fields of a row that is compared with nothing. */
export const UNCOMPARED = { baseline: '-', ratio: null, bar: '-', holds: null } as const;

/** The ratio of a row, and whether it is on the right side of its bar. */
export function judged(ratio: number, side: '>=' | '<=', bar: number) {
  return { ratio, bar: `${side} ${bar}`, holds: side === '>=' ? ratio >= bar : ratio <= bar };
}
