/** The kinds of values that the form takes. */
export const VALUE_KINDS = ['text', 'number', 'true or false', 'JSON'] as const;
export type ValueKind = (typeof VALUE_KINDS)[number];

export function kindOf(value: unknown): ValueKind {
  if (typeof value === 'string') return 'text';
  if (typeof value === 'number') return 'number';
  if (typeof value === 'boolean') return 'true or false';
  return 'JSON';
}

/** The text of a value in a field of its kind. */
export function typedFormOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value, undefined, 2);
}

export type ReadValue = { readonly value: unknown } | { readonly fault: string };

/** Reads a typed value. `null` is refused: it would remove the attribute. */
export function readValue(kind: ValueKind, text: string): ReadValue {
  switch (kind) {
    case 'text':
      return { value: text };
    case 'number': {
      const number = Number(text);
      return text.trim() === '' || !Number.isFinite(number) ? { fault: 'Not a number' } : { value: number };
    }
    case 'true or false':
      return text === 'true' || text === 'false' ? { value: text === 'true' } : { fault: 'Choose one' };
    case 'JSON':
      return readJson(text);
  }
}

function readJson(text: string): ReadValue {
  try {
    const value: unknown = JSON.parse(text);
    return value === null ? { fault: 'null takes an attribute away: use "Remove"' } : { value };
  } catch (error) {
    return { fault: error instanceof Error ? error.message : 'Not JSON' };
  }
}
