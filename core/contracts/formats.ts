import type { Format } from 'ajv';
import { fullFormats } from 'ajv-formats/dist/formats.js';
import { dateTimeCheck, emailCheck, isDuration, isTime, isUuid } from './text-formats.ts';
import { isUriTemplate, uriChecks } from './uri-formats.ts';
import type { WorkMeter } from './work-meter.ts';

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

function stock(name: 'date' | 'email' | 'hostname' | 'ipv4' | 'ipv6'): Check {
  return textCheck(fullFormats[name]) ?? (() => false);
}

const { uri, reference } = uriChecks(stock('ipv6'));

/** Where the usual checks differ from the standard they name, or take more than linear time. */
const OWN: ReadonlyMap<string, Check> = new Map([
  ['url', isUrl],
  ['regex', isRegex],
  ['uri', uri],
  ['uri-reference', reference],
  ['uri-template', isUriTemplate],
  ['time', isTime],
  ['date-time', dateTimeCheck(stock('date'))],
  ['duration', isDuration],
  ['uuid', isUuid],
  ['email', emailCheck(stock('email'), stock('ipv4'), stock('ipv6'))],
  ['hostname', (text) => !text.endsWith('.') && stock('hostname')(text)],
]);

/** The numbers of events are doubles, and as a double the largest `int64` is 2^63. */
const MAX_INT64 = 2 ** 63;
const MAX_FLOAT = Math.fround(3.4028234663852886e38);

/** The usual check of `byte` looks at one line, and those of numbers at no bounds. */
const OWN_FORMATS: ReadonlyMap<string, Format> = new Map<string, Format>([
  ['byte', /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/],
  [
    'int64',
    { type: 'number', validate: (value: number) => Number.isInteger(value) && Math.abs(value) <= MAX_INT64 },
  ],
  ['float', { type: 'number', validate: (value: number) => Math.abs(value) <= MAX_FLOAT }],
]);

function bounded(name: string, format: Format): Format {
  const check = OWN.get(name) ?? textCheck(format);
  return check === undefined ? format : shorterOnly(check);
}

/** The formats a contract may name, each taking time linear in the text. */
export const FORMATS: ReadonlyMap<string, Format> = new Map(
  Object.entries(fullFormats).map(([name, format]) => [name, OWN_FORMATS.get(name) ?? bounded(name, format)]),
);

/** Whether a text has a format of those a contract may name. */
export function hasFormat(name: string, text: string): boolean {
  const format = FORMATS.get(name);
  return format !== undefined && textCheck(format)?.(text) === true;
}

/** Characters looked at that count as one unit of work. */
const CHARACTERS_PER_UNIT = 2;
const WORK_PER_FORMAT = 20;

/** The same formats, whose checks of long texts spend from the meter. */
export function meteredFormats(meter: WorkMeter): Record<string, Format> {
  const metered = [...FORMATS].map(([name, format]): [string, Format] => {
    const check = textCheck(format);
    if (check === undefined) return [name, format];
    return [
      name,
      (text: string) => {
        meter.spend(WORK_PER_FORMAT + Math.trunc(text.length / CHARACTERS_PER_UNIT));
        return check(text);
      },
    ];
  });
  return Object.fromEntries(metered);
}
