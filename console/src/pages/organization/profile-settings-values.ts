import type { Schemas } from '../../api/client.ts';

export type ProfileSettings = Schemas['ProfileSettings'];
export type ProfileSettingsBody = Schemas['ProfileSettingsBody'];

export interface BlockedRow {
  /** Identifies the row in the form; not part of the settings. */
  readonly key: string;
  /** Empty: any type. */
  readonly type: string;
  readonly kind: 'value' | 'pattern';
  readonly text: string;
}

export interface LimitRow {
  readonly key: string;
  readonly type: string;
  readonly max: number | '';
  readonly drop_oldest: boolean;
}

export interface ProfileValues {
  readonly default_country: string;
  readonly blocked_identities: readonly BlockedRow[];
  readonly identity_limits: readonly LimitRow[];
  readonly max_user_ids_per_identity: number | '';
}

export function valuesOf(settings: ProfileSettings): ProfileValues {
  return {
    default_country: settings.default_country ?? '',
    blocked_identities: settings.blocked_identities.map(({ type, value, pattern }, row) => ({
      key: String(row),
      type: type ?? '',
      kind: pattern === null ? 'value' : 'pattern',
      text: pattern ?? value ?? '',
    })),
    identity_limits: settings.identity_limits.map((limit, row) => ({ key: String(row), ...limit })),
    max_user_ids_per_identity: settings.max_user_ids_per_identity,
  };
}

export function bodyOf(values: ProfileValues): ProfileSettingsBody {
  const { default_country: country, max_user_ids_per_identity: most } = values;
  return {
    default_country: country === '' ? null : country.toUpperCase(),
    blocked_identities: values.blocked_identities.map(({ type, kind, text }) => ({
      ...(type !== '' && { type }),
      [kind]: text,
    })),
    identity_limits: values.identity_limits.map(({ type, max, drop_oldest }) => ({
      type,
      max: max === '' ? 0 : max, // the API refuses 0 and names the field
      drop_oldest,
    })),
    max_user_ids_per_identity: most === '' ? null : most,
  };
}

/** The field of the form for a path of the body: a row has one text, whether it is a value or a pattern. */
export function fieldOf(path: string): string {
  const row = /^blocked_identities\.\d+/.exec(path)?.[0];
  if (row !== undefined && !path.endsWith('.type')) return `${row}.text`;
  return path;
}

/** The rows of a list, one a line, for the comparison of versions. */
export function linesOf(value: unknown): string {
  if (!Array.isArray(value)) return String(value);
  return value.map(lineOf).join('\n');
}

function lineOf(row: BlockedRow | LimitRow): string {
  if ('kind' in row) return `${row.type === '' ? 'any type' : row.type}: ${row.kind} ${row.text}`;
  return `${row.type}: at most ${row.max}, ${row.drop_oldest ? 'the oldest goes' : 'one more is refused'}`;
}
