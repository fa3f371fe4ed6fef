import { isSame } from '../../shared/forms/versions.ts';

/** A field that an audit entry changed. A side is absent where the field did not exist. */
export interface Change {
  /** Path with dots: `settings.url`. */
  readonly field: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

type Fields = Readonly<Record<string, unknown>>;

/** Fields that change with every write and add nothing to the entry. */
const NOISE = new Set(['updated_at', 'version']);
const NOISE_OF_NEW = new Set([
  ...NOISE,
  'id',
  'created_at',
  'created_by',
  'workspace_id',
  'organization_id',
  'hash',
]);

/**
 * The fields that differ: objects member by member, lists as a whole. Created and deleted entities without uninformative
 * fields.
 */
export function changesOf(before: Fields | null, after: Fields | null): readonly Change[] {
  const noise = before === null || after === null ? NOISE_OF_NEW : NOISE;
  return differences(withoutNoise(before ?? {}, noise), withoutNoise(after ?? {}, noise), '').filter(
    (change) => !isEmpty(change.before) || !isEmpty(change.after),
  );
}

function withoutNoise(fields: Fields, noise: ReadonlySet<string>): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !noise.has(name)));
}

function differences(before: Fields, after: Fields, prefix: string): readonly Change[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.flatMap((name): readonly Change[] => {
    const field = `${prefix}${name}`;
    const [old, now] = [before[name], after[name]];
    if (isSame(old, now)) return [];
    if (isFields(old) && isFields(now)) return differences(old, now, `${field}.`);
    return [{ field, ...(name in before && { before: old }), ...(name in after && { after: now }) }];
  });
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether a value is absent, `null` or empty: such a field adds nothing to the entry of a new entity. */
function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === '') return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

/** A value on one line: texts unchanged, anything else as JSON, long ones cut. */
export function shortOf(value: unknown, max = 60): string {
  const text = (typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).replace(/\s+/g, ' ');
  return text.length > max ? `${text.slice(0, max - 1)}…` : text;
}
