import { hash } from 'node:crypto';

/** What producers send in place of an identity they do not have, lower-cased. */
const WORDS = ['', 'null', 'undefined', 'none', 'n/a', 'unknown', 'anonymous', 'guest', 'test', '0', '-1'];
const ZERO_UUID = /^0{8}-?(0{4}-?){3}0{12}$/;
const ZERO_UUIDS = ['00000000-0000-0000-0000-000000000000', '0'.repeat(32)];

/** Their digests: a producer that hashes whatever it has hashes these too, and everybody would be one person. */
const DIGESTS: ReadonlySet<string> = new Set(
  [...WORDS, ...ZERO_UUIDS]
    .flatMap((word) => [word, word.toUpperCase(), word.charAt(0).toUpperCase() + word.slice(1)])
    .flatMap((word) => ['md5', 'sha1', 'sha256'].map((algorithm) => hash(algorithm, word))),
);
const PLACEHOLDERS: ReadonlySet<string> = new Set(WORDS);

/** True for a value that names nobody, in any case of letters, blanks around it trimmed. */
export function isPlaceholder(value: string): boolean {
  const word = value.trim().toLowerCase();
  return PLACEHOLDERS.has(word) || ZERO_UUID.test(word);
}

/** True for the hexadecimal digest of a placeholder, by an algorithm that hashed variants of a namespace name. */
export function isPlaceholderDigest(value: string): boolean {
  return DIGESTS.has(value.toLowerCase());
}
