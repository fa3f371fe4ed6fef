import { fullFormats } from 'ajv-formats/dist/formats.js';
import type { WorkMeter } from '../work.ts';

type Check = (text: string) => boolean;

/** A check of texts or of numbers; other values have every format. */
export interface Format {
  readonly of: 'text' | 'number';
  readonly check: (value: never) => boolean;
}

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

/** The check of ajv-formats. */
function stock(name: keyof typeof fullFormats): Format {
  const given = fullFormats[name];
  if (typeof given !== 'object' || given instanceof RegExp) return text(given as true | RegExp | Check);
  return given.type === 'number'
    ? { of: 'number', check: given.validate as (value: number) => boolean }
    : text(given.validate as RegExp | Check);
}

function text(check: true | RegExp | Check): Format {
  const test = typeof check === 'function' ? check : (given: string) => check === true || check.test(given);
  return { of: 'text', check: test };
}

function number(check: (value: number) => boolean): Format {
  return { of: 'number', check };
}

function stockCheck(name: 'date' | 'email' | 'hostname' | 'ipv4' | 'ipv6'): Check {
  return stock(name).check as Check;
}

const { uri, reference } = uriChecks(stockCheck('ipv6'));

/** The numbers of events are doubles, and as a double the largest `int64` is 2^63. */
const MAX_INT64 = 2 ** 63;
const MAX_FLOAT = Math.fround(3.4028234663852886e38);
const BYTE = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/**
 * Replaces the checks of ajv-formats that differ from the standard they name, or take more than linear time. Its check for
 * `byte` stops at the end of a line, and those for numbers have no bounds.
 */
const OWN: ReadonlyMap<string, Format> = new Map([
  ['url', text(isUrl)],
  ['regex', text(isRegex)],
  ['uri', text(uri)],
  ['uri-reference', text(reference)],
  ['uri-template', text(isUriTemplate)],
  ['time', text(isTime)],
  ['date-time', text(dateTimeCheck(stockCheck('date')))],
  ['duration', text(isDuration)],
  ['uuid', text(isUuid)],
  ['email', text(emailCheck(stockCheck('email'), stockCheck('ipv4'), stockCheck('ipv6')))],
  ['hostname', text((name) => !name.endsWith('.') && stockCheck('hostname')(name))],
  ['byte', text(BYTE)],
  ['int64', number((value) => Number.isInteger(value) && Math.abs(value) <= MAX_INT64)],
  ['float', number((value) => Math.abs(value) <= MAX_FLOAT)],
]);

function bounded(name: string, format: Format): Format {
  if (format.of === 'number' || name === 'byte') return format;
  const check = format.check as Check;
  return text((given) => given.length <= MAX_FORMATTED_LENGTH && check(given));
}

/** The formats that a contract may name, each checked in time linear in the text. */
export const FORMATS: ReadonlyMap<string, Format> = new Map(
  (Object.keys(fullFormats) as (keyof typeof fullFormats)[]).map((name) => [
    name,
    bounded(name, OWN.get(name) ?? stock(name)),
  ]),
);

/** Whether a text has one of the formats that a contract may name. */
export function hasFormat(name: string, given: string): boolean {
  const format = FORMATS.get(name);
  return format?.of === 'text' && (format.check as Check)(given);
}

/** Characters per unit of evaluation work. */
const CHARACTERS_PER_UNIT = 2;
const WORK_PER_FORMAT = 20;

/** The same formats, whose checks of texts are charged to the meter. */
export function meteredFormats(meter: WorkMeter): ReadonlyMap<string, Format> {
  const metered = [...FORMATS].map(([name, format]): [string, Format] => {
    if (format.of === 'number') return [name, format];
    const check = format.check as Check;
    const charged = text((given) => {
      meter.spend(WORK_PER_FORMAT + Math.trunc(given.length / CHARACTERS_PER_UNIT));
      return check(given);
    });
    return [name, charged];
  });
  return new Map(metered);
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
