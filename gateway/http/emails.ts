import { normalizeEmail } from '@tributary/core';
import { Type } from 'typebox';
import { invalidRequest } from './errors.ts';
import { documentedAs } from './schemas.ts';

export const email = Type.String({
  minLength: 1,
  maxLength: 254,
  description: 'An e-mail address.',
  ...documentedAs({ pattern: '^[^\\s@]+@[^\\s@]+$' }),
});

/** An address of a body in the form in which addresses are compared; 400 for what is none. */
export function readEmail(text: string, path: string): string {
  const address = normalizeEmail(text);
  if (address === undefined) throw invalidRequest({ path, message: 'is not an e-mail address' });
  return address;
}
