import { Text, Tooltip } from '@mantine/core';

const LOCAL = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const UNITS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
];

interface Props {
  /** ISO 8601; null where nothing happened yet. */
  readonly value: string | null | undefined;
  /** `5 minutes ago` instead of the time. */
  readonly relative?: boolean;
}

/** A time in the viewer's zone, with UTC on hover and on focus. */
export function Timestamp({ value, relative = false }: Props) {
  if (value === null || value === undefined)
    return (
      <Text span c="dimmed" inherit>
        never
      </Text>
    );
  const time = new Date(value);
  const utc = `${time.toISOString().replace('T', ' ').replace('Z', '')} UTC`;
  return (
    <Tooltip
      label={relative ? `${LOCAL.format(time)} · ${utc}` : utc}
      events={{ hover: true, focus: true, touch: true }}
    >
      <time dateTime={value} style={relative ? { whiteSpace: 'nowrap' } : undefined}>
        {relative ? ago(time) : LOCAL.format(time)}
      </time>
    </Tooltip>
  );
}

export function ago(time: Date, now = Date.now()): string {
  const ms = time.getTime() - now;
  for (const [unit, length] of UNITS)
    if (Math.abs(ms) >= length) return RELATIVE.format(Math.trunc(ms / length), unit);
  return Math.abs(ms) < 10_000 ? 'just now' : RELATIVE.format(Math.trunc(ms / 1000), 'second');
}
