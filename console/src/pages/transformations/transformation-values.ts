import type { Schemas } from '../../api/client.ts';

export type Transformation = Schemas['Transformation'];
export type Trial = Schemas['TransformationTrial'];
export type EventJson = Readonly<Record<string, unknown>>;

/** What the form of a transformation holds. The test is kept as texts, also while they are no JSON. */
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

/** Why a text is no event, or no list of events where that may be; undefined where it is, or is empty. */
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

/** The expected result that a test compares with: an event, several, or none where it was dropped. */
export function expectedOf({ output }: Trial): string {
  return textOf(output ?? []);
}

export function fieldOfBody(path: string): string {
  return path === 'test_input' || path === 'test_output' ? `${path}_text` : path;
}

/** What became of an event, in words. */
export function outcomeOf({ ok, output, error }: Trial): string {
  if (!ok) return error ?? 'It failed.';
  if (output === null) return 'dropped';
  if (!Array.isArray(output)) return 'one event';
  return output.length === 0 ? 'dropped' : output.length === 1 ? 'one event' : `${output.length} events`;
}
