import type { Format } from 'ajv';
import { fullFormats } from 'ajv-formats/dist/formats.js';
import type { WorkMeter } from '../work.ts';

type Check = (text: string) => boolean;

/** A longer text has no format, which bounds the cost of a check. `byte` may be as long as the event. */
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

/** Replaces the checks of ajv-formats that differ from the standard they name, or take more than linear time. */
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

/** The check of ajv-formats for `byte` stops at the end of a line, and those for numbers have no bounds. */
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

/** The formats that a contract may name, each checked in time linear in the text. */
export const FORMATS: ReadonlyMap<string, Format> = new Map(
  Object.entries(fullFormats).map(([name, format]) => [name, OWN_FORMATS.get(name) ?? bounded(name, format)]),
);

/** Whether a text has one of the formats that a contract may name. */
export function hasFormat(name: string, text: string): boolean {
  const format = FORMATS.get(name);
  return format !== undefined && textCheck(format)?.(text) === true;
}

/** Characters per unit of evaluation work. */
const CHARACTERS_PER_UNIT = 2;
const WORK_PER_FORMAT = 20;

/** The same formats, whose checks of texts are charged to the meter. */
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

/** RFC 3339: no offset of hours alone, seconds of any precision, 60 only for a leap second, 23:59:60 UTC. */
const TIME = /^([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)(?:\.\d+)?(?:z|([+-])([01]\d|2[0-3]):([0-5]\d))$/i;

function isTime(text: string): boolean {
  const match = TIME.exec(text);
  if (match === null) return false;
  const [, hour, minute, second, sign, offsetHour = 0, offsetMinute = 0] = match;
  if (second !== '60') return true;
  const offset = (sign === '-' ? -1 : 1) * (Number(offsetHour) * 60 + Number(offsetMinute));
  const utc = Number(hour) * 60 + Number(minute) - offset;
  return (utc + 2 * 1_440) % 1_440 === 1_439;
}

/** A `date` and a `time` with a T between them. */
function dateTimeCheck(isDate: Check): Check {
  return (text) => /^[\d-]{10}t/i.test(text) && isDate(text.slice(0, 10)) && isTime(text.slice(11));
}

const IN_TIME = 'T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)';
const IN_DATE = '(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)';
const DURATION = new RegExp(`^P(?:${IN_DATE}(?:${IN_TIME})?|${IN_TIME}|\\d+W)$`);

/** RFC 3339, appendix A: units follow each other without a gap. */
function isDuration(text: string): boolean {
  return DURATION.test(text);
}

function isUuid(text: string): boolean {
  return /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text);
}

const QUOTED = /^"(?:[ !#-[\]-~]|\\[ -~])*"$/;

/** An address of RFC 5321: besides the usual ones, with a quoted name before the @ or an IP address in brackets after it. */
function emailCheck(usual: Check, isIpv4: Check, isIpv6: Check): Check {
  return (text) => {
    const at = text.lastIndexOf('@');
    const local = text.slice(0, at);
    const domain = text.slice(at + 1);
    if (at < 1) return false;
    if (!usual(`${QUOTED.test(local) ? 'a' : local}@${domain.startsWith('[') ? 'example.com' : domain}`))
      return false;
    if (!domain.startsWith('[')) return true;
    const address = domain.slice(1, -1);
    if (!domain.endsWith(']')) return false;
    return /^ipv6:/i.test(address) ? isIpv6(address.slice(5)) : isIpv4(address);
  };
}

const CHARACTER = "[\\w.~!$&'()*+,;=-]|%[\\da-f]{2}";
const SCHEME = /^[a-z][a-z\d+.-]*$/i;
const PATH = new RegExp(`^(?:${CHARACTER}|[:@/])*$`, 'i');
const QUERY = new RegExp(`^(?:${CHARACTER}|[:@/?])*$`, 'i');
const USER = new RegExp(`^(?:${CHARACTER}|:)*$`, 'i');
const NAME = new RegExp(`^(?:${CHARACTER})*$`, 'i');
const PORT = /^(?::\d*)?$/;
const FUTURE = /^v[\da-f]+\.[\w.~!$&'()*+,;=:-]+$/i;

/** The parts of a URI by RFC 3986, appendix B. */
const PARTS = /^(?:([^:/?#]+):)?(?:\/\/([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#([\s\S]*))?$/;

const TEMPLATE_LITERAL = '[^\\x00-\\x20"%<>\\\\^`{|}\\x7f-\\x9f]|%[\\da-f]{2}';
const VARIABLE = '(?:\\w|%[\\da-f]{2})(?:\\.?(?:\\w|%[\\da-f]{2}))*(?::[1-9]\\d{0,3}|\\*)?';
const TEMPLATE = new RegExp(
  `^(?:${TEMPLATE_LITERAL}|\\{[+#./;?&=,!@|]?${VARIABLE}(?:,${VARIABLE})*\\})*$`,
  'i',
);

/** A URI template of RFC 6570. */
function isUriTemplate(text: string): boolean {
  return TEMPLATE.test(text);
}

/** The checks of RFC 3986, each in time linear in the text: a `uri` has a scheme, a reference need not. */
function uriChecks(isIpv6: Check): { readonly uri: Check; readonly reference: Check } {
  function isHost(host: string): boolean {
    if (!host.startsWith('[')) return NAME.test(host);
    const address = host.slice(1, -1);
    return host.endsWith(']') && (isIpv6(address) || FUTURE.test(address));
  }

  function isAuthority(authority: string): boolean {
    const at = authority.indexOf('@');
    const rest = authority.slice(at + 1);
    const end = rest.startsWith('[') ? rest.indexOf(']') + 1 : rest.indexOf(':');
    const port = end === -1 ? rest.length : end;
    return (
      USER.test(authority.slice(0, Math.max(0, at))) &&
      isHost(rest.slice(0, port)) &&
      PORT.test(rest.slice(port))
    );
  }

  function isReference(text: string, absolute: boolean): boolean {
    const [whole, scheme, authority, path = '', query = '', fragment = ''] = PARTS.exec(text) ?? [];
    if (whole === undefined) return false;
    if (scheme === undefined ? absolute || text.startsWith(':') : !SCHEME.test(scheme)) return false;
    if (authority !== undefined && !(isAuthority(authority) && (path === '' || path.startsWith('/'))))
      return false;
    return PATH.test(path) && QUERY.test(query) && QUERY.test(fragment);
  }

  return { uri: (text) => isReference(text, true), reference: (text) => isReference(text, false) };
}
