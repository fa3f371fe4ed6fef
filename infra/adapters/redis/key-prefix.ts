import { InvalidInput } from '@tributary/core';

/** What goes before the names of all keys. Braces would decide on the slot of a key in our stead. */
export function checkKeyPrefix(prefix: string): string {
  if (/[{}]/.test(prefix)) throw new InvalidInput('a prefix of Redis keys holds no braces');
  return prefix;
}
