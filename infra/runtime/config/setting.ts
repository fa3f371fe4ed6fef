import type { Parsed } from './parse.ts';

/** One variable of the environment: what it means, its default as a person would write it, how it is read. */
export interface Setting<T> {
  readonly name: string;
  readonly description: string;
  /** Shown in the reference, and parsed when the variable is absent. */
  readonly fallback: string;
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
