import { hash } from 'node:crypto';

/*
 * Values that producers send in place of an identity that they do not have. Unrelated people share such a value, and
 * it would merge them into one profile. The words are those that PostHog, Segment, Zeotap and mParticle block, and
 * the texts that languages, spreadsheets and templates produce for an absent value.
 */

/** Lower-cased, without quotes and brackets around them. */
const WORDS = [
  // Absent values, as languages and exports write them.
  ...[
    '',
    'null',
    'undefined',
    'none',
    'nil',
    'nan',
    'void',
    'empty',
    'blank',
    'missing',
    'n/a',
    'n.a.',
    'na',
  ],
  ...[
    'true',
    'false',
    'infinity',
    '-infinity',
    'object object',
    'object',
    'undefined undefined',
    'null null',
  ],
  ...['#n/a', '#ref!', '#value!', '#name?', '#null!', '0', '-1', '0.0', '1970-01-01t00:00:00.000z'],
  // Words for nobody.
  ...['unknown', 'anonymous', 'anon', 'guest', 'nobody', 'not set', 'not_set', 'notset', 'not provided'],
  ...[
    'not available',
    'unidentified',
    'not_authenticated',
    'not authenticated',
    'unauthenticated',
    'logged out',
  ],
  // Names of the field, and values from development.
  ...['id', 'uid', 'user', 'userid', 'user_id', 'user-id', 'user id', 'username', 'customer', 'customerid'],
  ...['customer_id', 'distinctid', 'distinct_id', 'anonymousid', 'anonymous_id', 'deviceid', 'device_id'],
  ...[
    'email',
    'e-mail',
    'mail',
    'phone',
    'test',
    'default',
    'dummy',
    'placeholder',
    'string',
    'abc123',
    'xxx',
  ],
];
const PLACEHOLDERS: ReadonlySet<string> = new Set(WORDS);

const MAX_UUID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
const ZERO_UUIDS = ['00000000-0000-0000-0000-000000000000', '0'.repeat(32)];
/** Zeros with or without separators, such as the advertising id of a device where it is switched off. */
const ZEROS = /^[0\p{P}\p{Z}]*$/u;
/** Punctuation, blanks and invisible characters. */
const NO_WORD = /^[\p{P}\p{Z}\p{C}\p{M}\p{Sk}$+<=>^`|~]*$/u;

/** An unfilled template variable anywhere in the value: `{{id}}`, `${id}`, `<%= id %>`, `*|ID|*`, `%%id%%`. */
const LEFTOVER =
  /\{\{[^{}]*\}\}|\$\{[^{}]*\}|<%[^<>%]*%>|\*\|[^|]*\|\*|%%[^%]*%%|\{%[^{}%]*%\}|\[\[[^[\]]*\]\]/;
/** The same as the whole value: `{id}`, `<user id>`, `[userId]`, `%id%`, `$id`, `:id`, `__USER__`. */
const WHOLE_LEFTOVER = /^(?:\{[\w .-]+\}|<[\w .-]+>|\[[\w .-]+\]|%[\w.-]+%|\$[a-z_]\w*|:[a-z_]\w*|__\w+__)$/i;

/** Local parts of addresses that people enter when they have none. */
const NO_ADDRESS =
  /^(?:no[-._]?e?-?mail|no[-._]?reply|do[-._]?not[-._]?reply|none|null|undefined|nil|nan|na|unknown|anonymous|guest|nobody|noone|not[-._]?provided|not[-._]?available|invalid|dummy|email|placeholder)@/;
/** Domains without mailboxes. */
const NO_DOMAIN =
  /@(?:[^@]*\.)?(?:invalid|localhost)$|@(?:null|undefined|none|na|test\.test|email\.email)$|^test@test\./;

const AROUND: ReadonlySet<string> = new Set('"\'`“”‘’«»„()[]{}<>\\ ');
/** Zero-width and other format characters. */
const FORMAT = /\p{Cf}/gu;

/** Digests of placeholders: a producer that hashes every value hashes these too. */
const DIGESTS: ReadonlySet<string> = new Set(
  [...WORDS, ...ZERO_UUIDS, '[object Object]', '(not set)', 'NaN', '"null"', '00']
    .flatMap((word) => [word, word.toUpperCase(), word.charAt(0).toUpperCase() + word.slice(1)])
    .flatMap(digestsOf),
);

/** True for a placeholder, in any case of letters, with blanks, quotes or brackets around it. */
export function isPlaceholder(value: string): boolean {
  const shown = value.replace(FORMAT, '').trim();
  const word = shown.toLowerCase();
  return (
    PLACEHOLDERS.has(word) ||
    PLACEHOLDERS.has(withoutQuotes(word)) ||
    word === MAX_UUID ||
    ZEROS.test(word) ||
    NO_WORD.test(word) ||
    LEFTOVER.test(shown) ||
    WHOLE_LEFTOVER.test(shown)
  );
}

function withoutQuotes(word: string): string {
  let [from, to] = [0, word.length];
  while (from < to && AROUND.has(word.charAt(from))) from++;
  while (to > from && AROUND.has(word.charAt(to - 1))) to--;
  return word.slice(from, to);
}

/** True for a lower-case e-mail address that belongs to nobody. */
export function isPlaceholderAddress(address: string): boolean {
  return NO_ADDRESS.test(address) || NO_DOMAIN.test(address);
}

/** True for the hexadecimal digest of a placeholder by an algorithm of a hashed identity type. */
export function isPlaceholderDigest(value: string): boolean {
  return DIGESTS.has(value.toLowerCase());
}

/** The hexadecimal digests of a text by the algorithms of hashed identity types. */
export function digestsOf(text: string): readonly string[] {
  return ['md5', 'sha1', 'sha256'].map((algorithm) => hash(algorithm, text));
}
