import type { Parsed } from './parse.ts';

/** One variable of the environment: what it means, its default as a person would write it, how it is read. */
export interface Setting<T> {
  readonly name: string;
  readonly description: string;
  /** Shown in the reference, and parsed when the variable is absent. */
  readonly fallback: string;
  /** A secret may also be in the file that `<name>_FILE` names. */
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

/** A setting without a default that is, or may hold, a secret. */
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
