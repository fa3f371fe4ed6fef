import type { Schemas } from '../../api/client.ts';

export type Transformation = Schemas['Transformation'];
export type Trial = Schemas['TransformationTrial'];
export type EventJson = Readonly<Record<string, unknown>>;

/** The values of a transformation's form. The test is kept as texts, so that invalid JSON is kept while it is edited. */
export type TransformationValues = {
  readonly name: string;
  readonly description: string;
  readonly source_code: string;
  readonly test_input_text: string;
  readonly test_output_text: string;
};

export function valuesOf(
  transformation: Pick<Transformation, 'name' | 'description' | 'source_code' | 'test_input' | 'test_output'>,
): TransformationValues {
  const { name, description, source_code, test_input, test_output } = transformation;
  return {
    name,
    description: description ?? '',
    source_code,
    test_input_text: textOf(test_input),
    test_output_text: textOf(test_output),
  };
}

/** The body of a change. The texts of the test have to be JSON, see `jsonFault`. */
export function bodyOf(values: TransformationValues): Schemas['TransformationBody'] {
  const { test_input_text, test_output_text, ...others } = values;
  return { ...others, test_input: read(test_input_text), test_output: read(test_output_text) };
}

export function textOf(value: unknown): string {
  return value === null || value === undefined ? '' : JSON.stringify(value, null, 2);
}

function read<T extends object>(text: string): T | null {
  return text.trim() === '' ? null : JSON.parse(text);
}

/** Why a text is not an event (or, where allowed, a list of events); undefined for a valid or empty text. */
export function jsonFault(text: string, mayBeList: boolean): string | undefined {
  if (text.trim() === '') return undefined;
  try {
    const value: unknown = JSON.parse(text);
    const isList = Array.isArray(value);
    if (typeof value === 'object' && value !== null && (mayBeList || !isList)) return undefined;
    return mayBeList ? 'This has to be an event or a list of events.' : 'This has to be an event: { ... }.';
  } catch {
    return 'This is no valid JSON.';
  }
}

/** The expected result of a test: one event, several, or an empty list where the event was dropped. */
export function expectedOf({ output }: Trial): string {
  return textOf(output ?? []);
}

export function fieldOfBody(path: string): string {
  return path === 'test_input' || path === 'test_output' ? `${path}_text` : path;
}

/** The result of a trial, in words. */
export function outcomeOf({ ok, output, error }: Trial): string {
  if (!ok) return error ?? 'It failed.';
  if (output === null) return 'dropped';
  if (!Array.isArray(output)) return 'one event';
  return output.length === 0 ? 'dropped' : output.length === 1 ? 'one event' : `${output.length} events`;
}
