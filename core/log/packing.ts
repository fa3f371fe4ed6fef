/**
 * Received records hold the entries of one group commit as JSON texts joined by newlines. JSON text never holds a
 * raw newline, so the join is exact and `unpack(pack(x))` gives the same bytes back.
 */
export function pack(values: readonly string[]): string {
  return values.length === 1 ? (values[0] ?? '') : values.join('\n');
}

export function unpack(value: string): readonly string[] {
  return value.includes('\n') ? value.split('\n') : [value];
}
