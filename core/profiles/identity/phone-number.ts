import { createRequire } from 'node:module';
import type { CountryCode, parsePhoneNumberFromString } from 'libphonenumber-js/min';
import { INVISIBLE } from './email-address.ts';

/** Schemes of telephone links. */
const SCHEME = /^(?:tel|sms|callto|whatsapp):(?:\/\/)?/i;
/** Digits of any script and separators. Letters, `;` and `#` begin an extension, which is another person's line. */
const NUMBER = /^\+?[\p{Nd}\s()[\]./~\p{Pd}\u2212]+$/u;
const E164 = /^\+[1-9]\d{4,14}$/;
const MAX_CHARACTERS = 64;
/** Shorter numbers are short codes and ids. */
const MIN_DIGITS = 5;

type Library = {
  readonly parsePhoneNumberFromString: typeof parsePhoneNumberFromString;
  readonly isSupportedCountry: (country: string) => country is CountryCode;
};
let library: Library | undefined;

/** Loaded with the first number: most processes never need it, and its table of countries takes 20 ms. */
function loaded(): Library {
  library ??= createRequire(import.meta.url)('libphonenumber-js/min') as Library;
  return library;
}

/** True for the ISO 3166 alpha-2 code, in capitals, of a country with known numbers. */
export function isPhoneCountry(code: string): code is CountryCode {
  return loaded().isSupportedCountry(code);
}

/**
 * The number in E.164; undefined for any other value. A number with `+` or `00` names its country and only needs a
 * possible length there; any other must be a valid number of `defaultCountry`.
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
  // Parsing must be idempotent: digits that look like a trunk prefix (`+54 0...`) would be removed one by one.
  return parsed(read.number, undefined)?.number === read.number ? read.number : undefined;
}

/**
 * Common spellings of a number in E.164, under which earlier releases may have stored it. Without the country code
 * only for `defaultCountry`: elsewhere it is another number.
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

/** Whether a value, read in the number's own country, is another spelling of the number in E.164. */
export function isSameNumber(value: string, canonical: string): boolean {
  if (!E164.test(canonical) || E164.test(value)) return false;
  return canonicalPhone(value, parsed(canonical, undefined)?.country) === canonical;
}

function parsed(number: string, defaultCountry: string | undefined) {
  const { parsePhoneNumberFromString: parse } = loaded();
  if (defaultCountry === undefined) return parse(number, { extract: false });
  return isPhoneCountry(defaultCountry) ? parse(number, { extract: false, defaultCountry }) : undefined;
}
