import { domainToASCII, domainToUnicode } from 'node:url';

/** Fast path for nearly every address: plain ASCII. Without `u`, no other letter matches. */
const PLAIN = /^[a-z0-9!#$&'*+/=?^_`{|}~.-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)*$/i;
const NONE: readonly never[] = [];
const ASCII = /^\p{ASCII}*$/u;
/** Longer values are no addresses; twice the bound of identities, to allow for invisible characters. */
const MAX_CHARACTERS = 1_024;

/** Invisible characters: controls, zero-width, bidirectional and other format characters, fillers. */
export const INVISIBLE = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;
/** The same without the two joiners, which distinguish domains in some scripts. */
const INVISIBLE_BUT_JOINERS = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;

/** Full-width forms of ASCII, and the small at sign, as East Asian input methods produce them. */
const WIDE = /[\uff01-\uff5e\ufe6b]/g;
/**
 * All that may be composed. Alone, the three excluded characters would become `;`, `` ` `` and `K`, which belong to
 * other addresses.
 */
const COMPOSABLE = /(?:[^\u037e\u1fef\u212a]|[\u037e\u1fef\u212a]\p{M})+/gu;

const NAMED = /<([^<>]*)>$/;
const QUOTED = /^(["'])(.*)\1$/;
const MAILTO = /^mailto:(?:\/\/)?([^?]*)/i;
const LOCAL_PART = /^[^\s"(),:;<>@[\\\]]+$/;
const QUOTED_LOCAL_PART = /^"([^\s"(),:;<>@[\\\]]+)"$/;
const DOMAIN = /^(?:[a-z0-9._-]|[^\p{ASCII}\s])+$/iu;

/**
 * The canonical spelling of an e-mail address; undefined for any other value. Idempotent.
 *
 * - Around the address these are ignored: blanks, quotes, a display name (`Ada <ada@x.io>`), `mailto:` with percent
 *   encoding and fields, and a dot, comma or semicolon at the end.
 * - Invisible characters are removed, full-width ASCII becomes ASCII (the width mapping of RFC 8265), and the rest is
 *   in NFC. NFKC would merge different mailboxes such as `x²` and `x2`.
 * - Letters are folded to lower case one by one, with all forms of a letter (`σ` and `ς`) the same. A letter with an
 *   ASCII fold is kept (the Kelvin sign, the dotless i), and `ß` is not `ss`: these are different mailboxes.
 * - The domain is in ASCII by UTS #46, as in mail transport. A dot at its end is ignored.
 */
export function canonicalAddress(text: string): string | undefined {
  if (PLAIN.test(text)) return text.toLowerCase();
  if (text.length > MAX_CHARACTERS) return undefined;
  const parts = partsOf(text, INVISIBLE);
  if (parts === undefined) return undefined;
  const { local, domain } = parts;
  const canonicalDomain =
    (/[\u200c\u200d]/.test(text) && !ASCII.test(domain)
      ? asciiDomain(partsOf(text, INVISIBLE_BUT_JOINERS)?.domain ?? '')
      : undefined) ?? asciiDomain(domain);
  return canonicalDomain === undefined ? undefined : `${folded(local)}@${canonicalDomain}`;
}

/** The normalisation of earlier releases: trimmed and lower-cased, except for the Kelvin sign and the dotted I. */
export function formerlyNormalisedAddress(text: string): string {
  return text.trim().replace(/[^\u212a\u0130]+/g, (part) => part.toLowerCase());
}

/**
 * Older spellings (as `formerlyNormalisedAddress` kept them) under which the canonical address may be stored: the one
 * `sent`, and spellings of its letters and domain by other programs. `every`: also with something around the address,
 * which an erasure must not miss. Without the canonical one.
 */
export function formerAddresses(
  canonical: string,
  sent: string,
  breadth: 'usual' | 'every',
): readonly string[] {
  if (breadth === 'usual' && PLAIN.test(sent) && !canonical.includes('xn--')) return NONE;
  const former = new Set([formerlyNormalisedAddress(sent)]);
  const at = canonical.lastIndexOf('@');
  const [local, domain] = [canonical.slice(0, at), canonical.slice(at + 1)];
  if (!ASCII.test(local) || domain.includes('xn--')) {
    const shown = domainToUnicode(domain) || domain;
    for (const start of [local, local.normalize('NFD')])
      for (const end of [domain, shown, shown.normalize('NFD')]) former.add(`${start}@${end}`);
  }
  if (breadth === 'every')
    for (const one of [canonical, ...former])
      for (const around of [`mailto:${one}`, `${one}.`, `<${one}>`]) former.add(around);
  former.delete(canonical);
  return [...former];
}

interface Parts {
  readonly local: string;
  readonly domain: string;
}

function partsOf(text: string, invisible: RegExp): Parts | undefined {
  let rest = cleaned(text, invisible);
  for (let before = ''; before !== rest; ) {
    before = rest;
    rest = cleaned(unwrapped(rest), invisible);
  }
  const at = rest.indexOf('@');
  if (at <= 0 || at !== rest.lastIndexOf('@')) return undefined;
  const written = rest.slice(0, at).trimEnd();
  const local = QUOTED_LOCAL_PART.exec(written)?.[1] ?? written;
  const domain = rest.slice(at + 1).trimStart();
  return LOCAL_PART.test(local) && DOMAIN.test(domain) ? { local, domain } : undefined;
}

function cleaned(text: string, invisible: RegExp): string {
  if (ASCII.test(text)) return text.replace(invisible, '').trim();
  return composed(text.replace(invisible, '').replace(WIDE, narrow)).trim();
}

/** Removes the outermost wrapping of an address. */
function unwrapped(text: string): string {
  const inner = NAMED.exec(text)?.[1] ?? QUOTED.exec(text)?.[2];
  if (inner !== undefined) return inner;
  const target = MAILTO.exec(text)?.[1];
  if (target !== undefined) return percentDecoded(target);
  const decoded = !text.includes('@') && text.includes('%40') ? percentDecoded(text) : text;
  return withoutEnd(decoded);
}

function withoutEnd(text: string): string {
  let end = text.length;
  while (end > 0 && '.,; '.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

function percentDecoded(text: string): string {
  try {
    const decoded = decodeURIComponent(text);
    return decoded.isWellFormed() ? decoded : text;
  } catch {
    // The text is not percent-encoded.
    return text;
  }
}

function narrow(character: string): string {
  return character === '\ufe6b' ? '@' : String.fromCharCode(character.charCodeAt(0) - 0xfee0);
}

function composed(text: string): string {
  return text.replace(COMPOSABLE, (part) => part.normalize('NFC'));
}

function folded(text: string): string {
  if (ASCII.test(text)) return text.toLowerCase();
  return composed(Array.from(text, foldedLetter).join(''));
}

function foldedLetter(letter: string): string {
  if (letter < '\u0080') return letter.toLowerCase();
  if (/\p{M}/u.test(letter)) return letter;
  const upper = letter.toUpperCase();
  const lower = (Array.from(upper).length === 1 ? upper : letter).toLowerCase();
  return /\p{ASCII}/u.test(lower) ? letter : lower;
}

/** Undefined for an invalid domain. */
function asciiDomain(domain: string): string | undefined {
  const ascii = ASCII.test(domain) ? domain.toLowerCase() : domainToASCII(domain);
  return withoutEnd(ascii) || undefined;
}
