const COUNT = new Intl.NumberFormat('en');
const RATE = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const BYTES = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

export function countText(count: number): string {
  return COUNT.format(count);
}

/** Records per second. The rate is null until the gateway has measured twice. */
export function rateText(perSecond: number | null): string {
  return perSecond === null ? '–' : `${RATE.format(perSecond)}/s`;
}

/** `45 s`, `12 min`, `3 h 5 min`, `2 d 4 h`. */
export function durationText(seconds: number): string {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return joined(`${hours} h`, minutes % 60, 'min');
  return joined(`${Math.floor(hours / 24)} d`, hours % 24, 'h');
}

function joined(head: string, rest: number, unit: string): string {
  return rest === 0 ? head : `${head} ${rest} ${unit}`;
}

export function bytesText(bytes: number): string {
  const power = Math.min(BYTES.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${RATE.format(bytes / 1024 ** power)} ${BYTES[power]}`;
}
