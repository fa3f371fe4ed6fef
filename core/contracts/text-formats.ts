type Check = (text: string) => boolean;

/** RFC 3339: no offset of hours alone, seconds of any precision, 60 only for a leap second, 23:59:60 UTC. */
const TIME = /^([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)(?:\.\d+)?(?:z|([+-])([01]\d|2[0-3]):([0-5]\d))$/i;

export function isTime(text: string): boolean {
  const match = TIME.exec(text);
  if (match === null) return false;
  const [, hour, minute, second, sign, offsetHour = 0, offsetMinute = 0] = match;
  if (second !== '60') return true;
  const offset = (sign === '-' ? -1 : 1) * (Number(offsetHour) * 60 + Number(offsetMinute));
  const utc = Number(hour) * 60 + Number(minute) - offset;
  return (utc + 2 * 1_440) % 1_440 === 1_439;
}

/** A `date` and a `time` with a T between them. */
export function dateTimeCheck(isDate: Check): Check {
  return (text) => /^[\d-]{10}t/i.test(text) && isDate(text.slice(0, 10)) && isTime(text.slice(11));
}

const IN_TIME = 'T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)';
const IN_DATE = '(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)';
const DURATION = new RegExp(`^P(?:${IN_DATE}(?:${IN_TIME})?|${IN_TIME}|\\d+W)$`);

/** RFC 3339, appendix A: units follow each other without a gap. */
export function isDuration(text: string): boolean {
  return DURATION.test(text);
}

export function isUuid(text: string): boolean {
  return /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text);
}

const QUOTED = /^"(?:[ !#-[\]-~]|\\[ -~])*"$/;

/** An address of RFC 5321: beside the usual ones a quoted name before the @, and an IP address in brackets after it. */
export function emailCheck(usual: Check, isIpv4: Check, isIpv6: Check): Check {
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
