/** RFC 5321: no address that mail can go to is longer. */
const MAX_LENGTH = 254;
const ADDRESS = /^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u;

/**
 * An e-mail address in the one form in which two of them are compared; undefined for what is none. Only ASCII letters
 * are lowered: Unicode lowers some others to ASCII ones (the Kelvin sign to `k`), and two addresses that mail tells
 * apart would become one person's.
 */
export function normalizeEmail(text: string): string | undefined {
  if (text.length > MAX_LENGTH || !ADDRESS.test(text)) return undefined;
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}
