import type { Fault } from '../../api/errors.ts';

/** The parts of a JSON pointer, or of the name of a parameter. */
function segmentsOf(pointer: string): readonly string[] {
  const path = pointer.startsWith('/') ? pointer.slice(1) : pointer;
  return path === '' ? [] : path.split('/').map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

export interface AssignedFaults {
  /** Messages by path of the field. */
  readonly fields: Readonly<Record<string, string>>;
  /** Faults of parts without a field. */
  readonly others: readonly Fault[];
}

/**
 * Puts each fault at its field. If the field shows a whole object or list, the message names the location in it. `fieldOf` is
 * for forms with other names of fields than in the body: it gets the path with dots.
 */
export function assignFaults(
  faults: readonly Fault[],
  hasField: (path: string) => boolean,
  fieldOf: (path: string) => string = (path) => path,
): AssignedFaults {
  const fields: Record<string, string> = {};
  const others: Fault[] = [];
  for (const fault of faults) {
    const segments = segmentsOf(fault.path);
    const field = longestFirst(segments.length)
      .map((length) => ({ length, path: fieldOf(segments.slice(0, length).join('.')) }))
      .find(({ path }) => hasField(path));
    if (field === undefined) {
      others.push(fault);
      continue;
    }
    const rest = segments.slice(field.length).join('.');
    const message = rest === '' ? fault.message : `${rest}: ${fault.message}`;
    const earlier = fields[field.path];
    fields[field.path] = earlier === undefined ? message : `${earlier}; ${message}`;
  }
  return { fields, others };
}

const longestFirst = (length: number) => Array.from({ length }, (_, index) => length - index);
