import { createRequire } from 'node:module';
import type { CountryCode, parsePhoneNumberFromString } from 'libphonenumber-js/min';
import { INVISIBLE } from './email-address.ts';

/** What a number may be preceded by in a link. */
const SCHEME = /^(?:tel|sms|callto|whatsapp):(?:\/\/)?/i;
/** Digits of any script and what stands between them. Letters, `;` and `#` begin an extension, which is another person's. */
const NUMBER = /^\+?[\p{Nd}\s()[\]./~\p{Pd}\u2212]+$/u;
const E164 = /^\+[1-9]\d{4,14}$/;
const MAX_CHARACTERS = 64;
/** Fewer are short codes and ids. */
const MIN_DIGITS = 5;

type Library = {
  readonly parsePhoneNumberFromString: typeof parsePhoneNumberFromString;
  readonly isSupportedCountry: (country: string) => country is CountryCode;
};
let library: Library | undefined;

/** Loaded with the first number: most processes never see one, and the table of all countries takes 20 ms. */
function loaded(): Library {
  library ??= createRequire(import.meta.url)('libphonenumber-js/min') as Library;
  return library;
}

/** True for the ISO 3166 alpha-2 code, in capitals, of a country whose numbers can be read. */
export function isPhoneCountry(code: string): code is CountryCode {
  return loaded().isSupportedCountry(code);
}

/**
 * The number in E.164; undefined for a value that cannot be read as one. With `+`, or `00` in its place, a number says its
 * country, and as many digits as numbers have there will do; any other must be a number of `defaultCountry`.
 */
export function canonicalPhone(text: string, defaultCountry: string | undefined): string | undefined {
  if (text.length > MAX_CHARACTERS) return undefined;
  const written = text.normalize('NFKC').replace(INVISIBLE, '').trim().replace(SCHEME, '').trim();
  const number = written.replace(/^[(\s]*(?:\+|00)\s*/, '+');
  if (!NUMBER.test(number) || (number.match(/\p{Nd}/gu)?.length ?? 0) < MIN_DIGITS) return undefined;
  const isInternational = number.startsWith('+');
  if (!isInternational && defaultCountry === undefined) return undefined;
  const read = parsed(number, isInternational ? undefined : defaultCountry);
  if (read === undefined || read.ext !== undefined) return undefined;
  if (!(isInternational ? read.isPossible() : read.isValid())) return undefined;
  // Where digits of the number look like a trunk prefix (`+54 0...`), each reading would take away another one.
  return parsed(read.number, undefined)?.number === read.number ? read.number : undefined;
}

/**
 * Forms that a number in E.164 is commonly written in: it may have been stored so before numbers were read. Without its
 * country only where that is `defaultCountry`: elsewhere it is somebody else's.
 */
export function formerPhones(canonical: string, defaultCountry: string | undefined): readonly string[] {
  const number = parsed(canonical, undefined);
  if (number === undefined) return [];
  const international = number.formatInternational();
  const digits = canonical.slice(1);
  const former = [
    international,
    international.replaceAll(' ', '-'),
    international.replaceAll(' ', '').replace(/^\+/, '00'),
    international.replace(/^\+/, '00'),
    `tel:${canonical}`,
  ];
  if (defaultCountry !== undefined && isPhoneCountry(defaultCountry)) {
    const national = number.formatNational();
    const plain = national.replace(/\D/g, '');
    for (const one of [national, plain, String(number.nationalNumber), digits])
      if (canonicalPhone(one, defaultCountry) === canonical) former.push(one);
  }
  return former;
}

/** Whether a value is another way to write the number in E.164, as it is read in the number's own country. */
export function isSameNumber(value: string, canonical: string): boolean {
  if (!E164.test(canonical) || E164.test(value)) return false;
  return canonicalPhone(value, parsed(canonical, undefined)?.country) === canonical;
}

function parsed(number: string, defaultCountry: string | undefined) {
  const { parsePhoneNumberFromString: parse } = loaded();
  if (defaultCountry === undefined) return parse(number, { extract: false });
  return isPhoneCountry(defaultCountry) ? parse(number, { extract: false, defaultCountry }) : undefined;
}
