import { readFileSync } from 'node:fs';
import { messageOf } from '@tributary/core';

/** One environment variable: its meaning, its default as an operator writes it, and its parser. */
export interface Setting<T> {
  readonly name: string;
  readonly description: string;
  /** The default: shown in the reference, and parsed if the variable is absent. */
  readonly fallback: string;
  /** A secret may also be in a file, named by `<name>_FILE`. */
  readonly isSecret?: true;
  parse(value: string): Parsed<T>;
}

export function setting<T>(
  name: string,
  fallback: string,
  parse: (value: string) => Parsed<T>,
  description: string,
): Setting<T> {
  return { name, description, fallback, parse };
}

/** A setting without a default that is, or may contain, a secret. */
export function secret<T>(
  name: string,
  parse: (value: string) => Parsed<T>,
  description: string,
): Setting<T> {
  return {
    ...setting(name, '', parse, `${description} Or \`${name}_FILE\`: the file that holds it.`),
    isSecret: true,
  };
}

/** The value of a variable, or what is wrong with it. */
export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly message: string };

export function text(): (value: string) => Parsed<string> {
  return (value) => ({ ok: true, value });
}

/** A comma-separated list, without empty parts. */
export function list(): (value: string) => Parsed<readonly string[]> {
  return (value) => ({
    ok: true,
    value: value
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== ''),
  });
}

/** A whole number within bounds. */
export function number(min: number, max: number): (value: string) => Parsed<number> {
  return (value) => {
    const parsed = Number(value);
    return /^\d{1,12}$/.test(value) && parsed >= min && parsed <= max
      ? { ok: true, value: parsed }
      : { ok: false, message: `must be a whole number from ${min} to ${max}` };
  };
}

/** A number per second, e.g. `10` or `0.5`. */
export function rate(max: number): (value: string) => Parsed<number> {
  return (value) => {
    const parsed = Number(value);
    return /^\d{1,9}(\.\d{1,3})?$/.test(value) && parsed > 0 && parsed <= max
      ? { ok: true, value: parsed }
      : { ok: false, message: `must be a number a second, above 0 and up to ${max}` };
  };
}

/** A number with a unit, e.g. `10s`, parsed into the unit whose factor is 1; `units` from the smallest. */
function quantity(
  units: Readonly<Record<string, number>>,
  min: number,
  max: number,
): (value: string) => Parsed<number> {
  const shown = (value: number) => {
    const whole = Object.entries(units).filter(([, factor]) => value % factor === 0 && value >= factor);
    const [unit, factor] = whole.at(-1) ?? Object.entries(units)[0] ?? ['', 1];
    return `${value / factor}${unit}`;
  };
  const form = `must be a number with a unit (${Object.keys(units).join(', ')})`;
  return (value) => {
    const match = /^(\d{1,9})([A-Za-z]+)$/.exec(value);
    const factor = units[match?.[2] ?? ''];
    const parsed = Number(match?.[1]) * (factor ?? Number.NaN);
    return parsed >= min && parsed <= max
      ? { ok: true, value: parsed }
      : { ok: false, message: `${form} from ${shown(min)} to ${shown(max)}` };
  };
}

const HOUR = 3_600_000;

/** A duration from `min` to `max`, parsed to ms. */
export function duration(min: number, max: number): (value: string) => Parsed<number> {
  return quantity({ ms: 1, s: 1_000, m: 60_000, h: HOUR, d: 24 * HOUR }, min, max);
}

/** An amount of memory from `min` to `max`, parsed to MiB. */
export function memory(min: number, max: number): (value: string) => Parsed<number> {
  return quantity({ MiB: 1, GiB: 1_024 }, min, max);
}

/** An amount of disk space up to `max`, parsed to bytes. */
export function space(max: number): (value: string) => Parsed<number> {
  return quantity({ MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 }, 0, max);
}

/** A number of bytes from 1 KiB up to `max`. */
export function budget(max: number): (value: string) => Parsed<number> {
  return quantity({ KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 }, 2 ** 10, max);
}

export function flag(): (value: string) => Parsed<boolean> {
  return (value) => {
    if (value === 'true' || value === '1') return { ok: true, value: true };
    if (value === 'false' || value === '0') return { ok: true, value: false };
    return { ok: false, message: 'must be true or false (1 or 0)' };
  };
}

/** Says that there is none, where an absence may be an oversight. */
export const NONE = 'none';

/** As `inner`, but undefined if the variable is `none` or absent. */
export function orNone<T>(inner: (value: string) => Parsed<T>): (value: string) => Parsed<T | undefined> {
  return (value) => (value === NONE ? { ok: true, value: undefined } : optional(inner)(value));
}

/** As `inner`, but undefined if the variable is absent. */
export function optional<T>(inner: (value: string) => Parsed<T>): (value: string) => Parsed<T | undefined> {
  return (value) => (value === '' ? { ok: true, value: undefined } : inner(value));
}

/** One of a few words. */
export function oneOf<const W extends string>(words: readonly W[]): (value: string) => Parsed<W> {
  return (value) => {
    const word = words.find((known) => known === value);
    return word === undefined
      ? { ok: false, message: `must be one of ${words.join(', ')}` }
      : { ok: true, value: word };
  };
}

/** `parsed`, unless `check` throws; then the message is `fault`, else that of the error. */
export function attempt<T>(check: () => unknown, parsed: Parsed<T>, fault?: string): Parsed<T> {
  try {
    check();
    return parsed;
  } catch (error) {
    return { ok: false, message: fault ?? messageOf(error) };
  }
}

/** The text of a PEM file; `check` throws if it is of another kind. The message never contains the text. */
export function pemFile(check: (pem: string) => unknown): (value: string) => Parsed<string> {
  return (path) => {
    let pem: string;
    try {
      pem = readFileSync(path, 'utf8');
    } catch {
      return { ok: false, message: `must name a file that can be read, not ${path}` };
    }
    return attempt(() => check(pem), { ok: true, value: pem }, `must name a PEM file: ${path} is none`);
  };
}

/**
 * Whether keys may be fetched from this URL: encrypted or from this machine, as an attacker who changes them in transit
 * could sign in as anyone.
 */
export function isSafeUrl(url: URL): boolean {
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname));
}

export function isLoopback(hostname: string): boolean {
  return /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(hostname);
}
