import { Type } from 'typebox';
import { invalidRequest } from './errors.ts';
import { documentedAs } from './schemas.ts';

const INTEGER = /^-?\d{1,9}$/;

export interface IntegerRule {
  /** The parameter, as the fault names it. */
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** Taken when the parameter is absent. */
  readonly fallback: number;
}

/** The parameter as routes take it: text, which the description tells to be an integer of the rule. */
export function integerText({ min, max, fallback }: IntegerRule, description: string) {
  const keywords = { type: 'integer', minimum: min, maximum: max, default: fallback };
  return Type.Optional(Type.String({ description, ...documentedAs(keywords) }));
}

/** An integer of a query, by its own strict rule: nothing is trimmed, rounded or guessed. 400 for anything else. */
export function parseInteger(text: string | undefined, { name, min, max, fallback }: IntegerRule): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (!INTEGER.test(text) || value < min || value > max)
    throw invalidRequest({ path: name, message: `must be an integer from ${min} to ${max}` });
  return value;
}
