import { InvalidInput } from '../errors/errors.ts';

/** A JSON object. Throws `InvalidInput` for any other text. */
export function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new InvalidInput('not JSON', { cause: error });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new InvalidInput('not a JSON object');
  return value as Record<string, unknown>;
}
