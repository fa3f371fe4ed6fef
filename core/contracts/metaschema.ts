import { Ajv } from 'ajv';
import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import type { JsonObject } from '../event/event.ts';
import { messageFor } from './breach-message.ts';
import type { SchemaFault } from './contract.ts';
import type { Dialect } from './dialect.ts';
import { uniqueItemsKeyword } from './vocabulary.ts';
import { WorkMeter } from './work-meter.ts';

/** A definition's size is bounded, and nothing is spent on its lists of names. */
const UNMETERED = new WorkMeter();
UNMETERED.left = Number.POSITIVE_INFINITY;

type Validate = (schema: JsonObject) => readonly ErrorObject[];

/** The stock `uniqueItems` takes quadratic time over the types and names that a hostile definition lists. */
function metaschema(ajv: Ajv, id: string): Validate {
  ajv.removeKeyword('uniqueItems');
  ajv.addKeyword(uniqueItemsKeyword(UNMETERED));
  const validate = ajv.getSchema(id);
  return (schema) => (validate === undefined || validate(schema) ? [] : (validate.errors ?? []));
}

const options = {
  strict: false,
  allErrors: true,
  verbose: true,
  validateFormats: false,
  logger: false,
} as const;

const MAKE: Record<Dialect['name'], () => Validate> = {
  'draft-07': () => metaschema(new Ajv(options), 'http://json-schema.org/draft-07/schema'),
  '2020-12': () => metaschema(new Ajv2020(options), 'https://json-schema.org/draft/2020-12/schema'),
};

/** Made when first needed: to compile them takes longer than to load all of this package. */
const made = new Map<Dialect['name'], Validate>();

function metaschemaOf(dialect: Dialect['name']): Validate {
  const validate = made.get(dialect) ?? MAKE[dialect]();
  made.set(dialect, validate);
  return validate;
}

/** Whether the keywords of a schema have values of the right shape; one fault for each place. */
export function shapeFaults(schema: JsonObject, dialect: Dialect): readonly SchemaFault[] {
  const faults = new Map<string, SchemaFault>();
  for (const error of metaschemaOf(dialect.name)(schema)) {
    const path = error.instancePath;
    if (!faults.has(path)) faults.set(path, { path, message: messageFor(error) });
  }
  return [...faults.values()];
}
