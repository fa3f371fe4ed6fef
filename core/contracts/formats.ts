import type { Format } from 'ajv';
import { fullFormats } from 'ajv-formats/dist/formats.js';

type Check = (text: string) => boolean;

/** A longer text has no format: it bounds the cost of a check. `byte` may be as long as the event. */
const MAX_FORMATTED_LENGTH = 8_192;

/** An absolute address of the web. The usual regular expression for it takes quadratic time. */
function isUrl(text: string): boolean {
  return /^(?:https?|ftp):\/\/[^\s/]/i.test(text) && URL.canParse(text);
}

function isRegex(text: string): boolean {
  try {
    new RegExp(text, 'u');
    return true;
  } catch {
    return false;
  }
}

function shorterOnly(check: Check): Check {
  return (text) => text.length <= MAX_FORMATTED_LENGTH && check(text);
}

function textCheck(format: Format): Check | undefined {
  if (format instanceof RegExp) return (text) => format.test(text);
  if (typeof format === 'function') return format;
  if (typeof format !== 'object' || format.type === 'number') return undefined;
  const check = format.validate as RegExp | Check;
  return check instanceof RegExp ? (text) => check.test(text) : check;
}

function bounded(name: string, format: Format): Format {
  if (name === 'url') return shorterOnly(isUrl);
  if (name === 'regex') return shorterOnly(isRegex);
  const check = name === 'byte' ? undefined : textCheck(format);
  return check === undefined ? format : shorterOnly(check);
}

/** The formats a contract may name, each taking time linear in the text. */
export const FORMATS: ReadonlyMap<string, Format> = new Map(
  Object.entries(fullFormats).map(([name, format]) => [name, bounded(name, format)]),
);
