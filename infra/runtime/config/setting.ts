import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** Reads the text of a variable. Throws an error with what is wrong with it, for a sentence that begins with its name. */
type Parse<T> = (text: string) => T;

/** One environment variable: its meaning, its default as an operator writes it, and its parser. */
export interface Setting<T> {
  readonly name: string;
  readonly description: string;
  /** The default: shown in the reference, and parsed if the variable is absent. */
  readonly fallback: string;
  /** A secret may also be in a file, named by `<name>_FILE`. */
  readonly isSecret?: true;
  readonly parse: Parse<T>;
}

export function setting<T>(name: string, fallback: string, parse: Parse<T>, description: string): Setting<T> {
  return { name, description, fallback, parse };
}

/** A setting without a default: undefined where the variable is absent. */
export function unset<T>(name: string, parse: Parse<T>, description: string): Setting<T | undefined> {
  return setting(name, '', optional(parse), description);
}

/** A setting without a default that is, or may contain, a secret. */
export function secret<T>(name: string, parse: Parse<T>, description: string): Setting<T> {
  return {
    ...setting(name, '', parse, `${description} Or \`${name}_FILE\`: the file that holds it.`),
    isSecret: true,
  };
}

export function text(value: string): string {
  return value;
}

/** A comma-separated list, without empty parts. */
export function list(value: string): readonly string[] {
  return value
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

/** A whole number within bounds. */
export function number(min: number, max: number): Parse<number> {
  return (value) => {
    const parsed = Number(value);
    if (/^\d{1,12}$/.test(value) && parsed >= min && parsed <= max) return parsed;
    throw new Error(`must be a whole number from ${min} to ${max}`);
  };
}

/** A number per second, e.g. `10` or `0.5`. */
export function rate(max: number): Parse<number> {
  return (value) => {
    const parsed = Number(value);
    if (/^\d{1,9}(\.\d{1,3})?$/.test(value) && parsed > 0 && parsed <= max) return parsed;
    throw new Error(`must be a number a second, above 0 and up to ${max}`);
  };
}

/** A number with a unit, e.g. `10s`, parsed into the unit whose factor is 1; `units` from the smallest. */
function quantity(units: Readonly<Record<string, number>>, min: number, max: number): Parse<number> {
  const shown = (value: number) => {
    const whole = Object.entries(units).filter(([, factor]) => value % factor === 0 && value >= factor);
    const [unit, factor] = whole.at(-1) ?? Object.entries(units)[0] ?? ['', 1];
    return `${value / factor}${unit}`;
  };
  const form = `must be a number with a unit (${Object.keys(units).join(', ')})`;
  return (value) => {
    const match = /^(\d{1,9})([A-Za-z]+)$/.exec(value);
    const parsed = Number(match?.[1]) * (units[match?.[2] ?? ''] ?? Number.NaN);
    if (parsed >= min && parsed <= max) return parsed;
    throw new Error(`${form} from ${shown(min)} to ${shown(max)}`);
  };
}

const HOUR = 3_600_000;

/** A duration from `min` to `max`, parsed to ms. */
export function duration(min: number, max: number): Parse<number> {
  return quantity({ ms: 1, s: 1_000, m: 60_000, h: HOUR, d: 24 * HOUR }, min, max);
}

/** An amount of memory from `min` to `max`, parsed to MiB. */
export function memory(min: number, max: number): Parse<number> {
  return quantity({ MiB: 1, GiB: 1_024 }, min, max);
}

/** An amount of disk space up to `max`, parsed to bytes. */
export function space(max: number): Parse<number> {
  return quantity({ MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 }, 0, max);
}

/** A number of bytes from 1 KiB up to `max`. */
export function budget(max: number): Parse<number> {
  return quantity({ KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 }, 2 ** 10, max);
}

export function flag(value: string): boolean {
  if (value === 'true' || value === '1') return true;
  if (value === 'false' || value === '0') return false;
  throw new Error('must be true or false (1 or 0)');
}

/** Says that there is none, where an absence may be an oversight. */
export const NONE = 'none';

/** As `inner`, but undefined if the variable is `none` or absent. */
export function orNone<T>(inner: Parse<T>): Parse<T | undefined> {
  return (value) => (value === NONE || value === '' ? undefined : inner(value));
}

/** As `inner`, but undefined if the variable is absent. */
export function optional<T>(inner: Parse<T>): Parse<T | undefined> {
  return (value) => (value === '' ? undefined : inner(value));
}

/** One of a few words. */
export function oneOf<const W extends string>(words: readonly W[]): Parse<W> {
  return (value) => {
    const word = words.find((known) => known === value);
    if (word === undefined) throw new Error(`must be one of ${words.join(', ')}`);
    return word;
  };
}

/** The text of a PEM file; `check` throws if it is of another kind. The message never contains the text. */
export function pemFile(check: (pem: string) => unknown): Parse<string> {
  return (path) => {
    const pem = orFault(`must name a file that can be read, not ${path}`, () => readFileSync(path, 'utf8'));
    orFault(`must name a PEM file: ${path} is none`, () => check(pem));
    return pem;
  };
}

/** The text of a PEM file with a certificate. */
export const certificateFile = pemFile((pem) => new X509Certificate(pem));

/** The result of `read`; where that throws, an error with this message alone. */
export function orFault<T>(fault: string, read: () => T): T {
  try {
    return read();
  } catch {
    throw new Error(fault);
  }
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
