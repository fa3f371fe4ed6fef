const WHOLE = new Intl.NumberFormat('en');
const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** `12,345`. */
export function numberText(value: number): string {
  return WHOLE.format(value);
}

/** `12.3K`, for where there is little room. */
export function shortNumberText(value: number): string {
  return SHORT.format(value);
}

/** `1 rule`, `2 rules`. */
export function plural(count: number, noun: string, nouns = `${noun}s`): string {
  return `${numberText(count)} ${count === 1 ? noun : nouns}`;
}

/** A share of a whole: `99.7 %`. Neither 0 nor 100 unless it is exactly that. */
export function shareText(part: number, whole: number): string {
  if (whole === 0) return '–';
  const percent = (part / whole) * 100;
  if (percent > 0 && percent < 0.1) return '< 0.1 %';
  if (percent > 99.9 && percent < 100) return '> 99.9 %';
  return `${Number(percent.toFixed(1))} %`;
}

/** `< 1 ms`, `12 ms`, `3.4 s`, `5 min`, `2 h`, `3 days`. */
export function durationText(ms: number): string {
  if (ms > 0 && ms < 0.5) return '< 1 ms';
  if (ms < 999.5) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 59_950) return `${Number((ms / 1_000).toFixed(1))} s`;
  if (ms < 3_570_000) return `${Math.round(ms / 60_000)} min`;
  return ms < 172_800_000 ? `${Math.round(ms / 3_600_000)} h` : `${Math.round(ms / 86_400_000)} days`;
}

/** `0.4/s`, `1,204/s`; a small rate is not rounded to nothing. */
export function perSecondText(rate: number): string {
  if (rate > 0 && rate < 0.1) return '< 0.1/s';
  return `${rate < 10 ? Number(rate.toFixed(1)) : numberText(Math.round(rate))}/s`;
}
