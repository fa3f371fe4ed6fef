import type { Schemas } from '../../api/client.ts';
import type { Fault } from '../../api/errors.ts';
import type { EditorMark } from '../../shared/code-editor.tsx';
import { hasName } from '../../shared/event-fields.ts';
import { isJsonObject, type Json, type JsonObject } from './schema-form/model.ts';

export type Contract = Schemas['Contract'];

/** The values of a contract's form. The schema is a text, so that invalid JSON is kept while it is edited. */
export type ContractValues = {
  readonly name: string;
  readonly event_type: Contract['event_type'];
  readonly event_name: string;
  readonly description: string;
  readonly schema_text: string;
  readonly enforcement_mode: Contract['enforcement_mode'];
  readonly undeclared_fields: Contract['undeclared_fields'];
};

type Described = Pick<
  Contract,
  'name' | 'event_type' | 'event_name' | 'schema_definition' | 'enforcement_mode' | 'undeclared_fields'
> & { readonly description?: string | null };

export function newContractValues(
  event_type: Contract['event_type'] = 'track',
  event_name = '',
): ContractValues {
  return {
    name: event_name,
    event_type,
    event_name,
    description: '',
    schema_text: textOf({ properties: {} }),
    enforcement_mode: 'warn',
    undeclared_fields: 'allow',
  };
}

export function valuesOf(contract: Described): ContractValues {
  const { name, event_type, event_name, schema_definition, enforcement_mode, undeclared_fields } = contract;
  return {
    name,
    event_type,
    event_name,
    description: contract.description ?? '',
    schema_text: textOf(schema_definition),
    enforcement_mode,
    undeclared_fields,
  };
}

/** The body of a change. `readSchema` must find no fault in the text; otherwise the schema is sent empty. */
export function bodyOf({ schema_text, event_name, ...values }: ContractValues): Schemas['ContractBody'] {
  const { definition } = readSchema(schema_text);
  return {
    ...values,
    event_name: hasName(values.event_type) ? event_name : '',
    schema_definition: { ...definition },
  };
}

export function textOf(definition: unknown): string {
  return JSON.stringify(definition, null, 2);
}

export interface ReadSchema {
  readonly definition?: JsonObject;
  /** Why the text is not a schema. */
  readonly fault?: string;
}

export function readSchema(text: string): ReadSchema {
  try {
    const value: Json = JSON.parse(text);
    return isJsonObject(value) ? { definition: value } : { fault: 'A schema is an object: { ... }.' };
  } catch (error) {
    return { fault: `This is no valid JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
}

const SCHEMA_PATH = '/schema_definition';

/** The faults that the API found in the schema, at their places in its text. */
export function schemaMarks(faults: readonly Fault[]): readonly EditorMark[] {
  return faults
    .filter(({ path }) => path === SCHEMA_PATH || path.startsWith(`${SCHEMA_PATH}/`))
    .map(({ path, message }) => ({ at: { pointer: path.slice(SCHEMA_PATH.length) }, message }));
}

/** The field of the form that shows a part of the body. */
export function fieldOfBody(path: string): string {
  return path === 'schema_definition' ? 'schema_text' : path;
}

/** The events of a contract in words: `track "Order Placed"`. */
export function eventsOf({ event_type, event_name }: Pick<Contract, 'event_type' | 'event_name'>): string {
  if (!hasName(event_type)) return event_type;
  return event_name === '' ? `${event_type}, names without a contract` : `${event_type} "${event_name}"`;
}
