import { InvalidInput } from '../errors/errors.ts';

/** A JSON object. `parse`: `parseExact` where digits count. Throws `InvalidInput` for any other text. */
export function parseObject(
  text: string,
  parse: (text: string) => unknown = JSON.parse,
): Record<string, unknown> {
  let value: unknown;
  try {
    value = parse(text);
  } catch (error) {
    throw new InvalidInput('not JSON', { cause: error });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new InvalidInput('not a JSON object');
  return value as Record<string, unknown>;
}
