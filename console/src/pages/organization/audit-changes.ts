import { isSame } from '../../shared/forms/versions.ts';

/** A field that an entry of the audit log changed. A side is absent where the field was not there. */
export interface Change {
  /** With dots: `settings.url`. */
  readonly field: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

type Fields = Readonly<Record<string, unknown>>;

/** They change with everything and say nothing that the entry does not. */
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

/** The fields that differ, objects by their members; lists whole. Of what is new or gone, those that say something. */
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

/** Nothing, `null`, an empty list or object: a new entity that has none of something says nothing by it. */
function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === '') return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

/** A value on one line: texts as they are, anything else as JSON, long ones cut. */
export function shortOf(value: unknown, max = 60): string {
  const text = (typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).replace(/\s+/g, ' ');
  return text.length > max ? `${text.slice(0, max - 1)}…` : text;
}
