import type { Contract } from '../catalog/entities.ts';
import type { CanonicalEvent, Json, JsonObject } from '../event/event.ts';
import { type CompiledSchema, compileSchema } from './evaluation/compile-schema.ts';
import { Place } from './evaluation/schema-check.ts';
import type { SchemaViolation } from './violation.ts';
import { lastOf } from './work.ts';

const AT = '2026-03-01T00:00:00.000Z';

/** A contract that blocks and allows undeclared fields, but for these fields. */
export function contractWith(fields: Partial<Contract>): Contract {
  return {
    id: 'c',
    version: 1,
    workspace_id: 'w',
    name: 'a contract',
    event_type: 'track',
    event_name: 'Signed Up',
    description: null,
    schema_definition: {},
    enforcement_mode: 'block',
    undeclared_fields: 'allow',
    status: 'active',
    created_by: 'someone',
    created_at: AT,
    updated_at: AT,
    ...fields,
  };
}

export function trackEvent(properties?: JsonObject, fields: Partial<CanonicalEvent> = {}): CanonicalEvent {
  return {
    message_id: 'm',
    type: 'track',
    event: 'Signed Up',
    user_id: 'u',
    ...(properties === undefined ? {} : { properties }),
    timestamp: AT,
    received_at: AT,
    environment: 'production',
    workspace_id: 'w',
    ...fields,
  };
}

export function times<Item>(count: number, item: (at: number) => Item): Item[] {
  return Array.from({ length: count }, (_, at) => item(at));
}

/** An object of so many fields, `f0` and on. */
export function fieldsOf(count: number, value: (at: number) => Json): JsonObject {
  return Object.fromEntries(times(count, (at) => [`f${at}`, value(at)]));
}

/** A definition without faults, compiled. */
export function compiled(definition: JsonObject): CompiledSchema {
  const { schema, faults } = lastOf(compileSchema(definition));
  if (schema === undefined) throw new Error(JSON.stringify(faults));
  return schema;
}

/** The violations of a value; throws where they take too much work. */
export function violationsOf(schema: CompiledSchema, value: Json): readonly SchemaViolation[] {
  const place = new Place(schema.meter);
  schema.meter.reset();
  schema.check(value, place);
  return place.violations;
}
