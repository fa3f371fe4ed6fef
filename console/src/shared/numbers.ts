const WHOLE = new Intl.NumberFormat('en');
const SHORT = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const SHARE = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 });

/** `12,345` */
export function count(value: number): string {
  return WHOLE.format(value);
}

/** `1 event`, `2 events` */
export function counted(value: number, one: string, several = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : several}`;
}

/** `0.4/s`, `1,204/s`; small rates are not rounded to nothing. */
export function perSecond(value: number): string {
  if (value > 0 && value < 0.1) return '< 0.1/s';
  return `${value < 10 ? SHORT.format(value) : WHOLE.format(Math.round(value))}/s`;
}

/** `99.8 %`; never rounded to all or nothing. */
export function share(value: number): string {
  if (value > 0.999 && value < 1) return '> 99.9%';
  if (value > 0 && value < 0.001) return '< 0.1%';
  return SHARE.format(value);
}

/** `35 ms`, `1.2 s`, `3 min`, `2.5 h`, `3 d` */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${SHORT.format(ms / 1_000)} s`;
  if (ms < 3_600_000) return `${SHORT.format(ms / 60_000)} min`;
  if (ms < 86_400_000) return `${SHORT.format(ms / 3_600_000)} h`;
  return `${SHORT.format(ms / 86_400_000)} d`;
}
