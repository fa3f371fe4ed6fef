import { invalidRequest } from './errors.ts';

const INTEGER = /^-?\d{1,9}$/;

export interface IntegerRule {
  /** The parameter, as the fault names it. */
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** Taken when the parameter is absent. */
  readonly fallback: number;
}

/** An integer of a query, by its own strict rule: nothing is trimmed, rounded or guessed. 400 for anything else. */
export function parseInteger(text: string | undefined, { name, min, max, fallback }: IntegerRule): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (!INTEGER.test(text) || value < min || value > max)
    throw invalidRequest({ path: name, message: `must be an integer from ${min} to ${max}` });
  return value;
}
