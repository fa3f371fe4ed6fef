import type { JsonObject } from '@tributary/core';
import { CHOSEN, type Chosen, type Definition } from './definitions.ts';
import { loadDefinition, type PackDefinition, type PackField } from './pack.ts';

/** Reads the definitions from the pack itself. */
export function defineChosen(): readonly Definition[] {
  return CHOSEN.map((destination) => define(destination, loadDefinition(destination)));
}

function define(
  destination: Chosen,
  { name, authentication, presets = [], actions }: PackDefinition,
): Definition {
  const fields = Object.entries(authentication?.fields ?? {});
  return {
    destination,
    type: `segment-${destination.replace(/-functions$/, '')}`,
    title: name
      .replace(/ *\(?Actions\)?|Cloud Mode/g, '')
      .replace(/ +\(\)|\s+/g, ' ')
      .trim(),
    properties: Object.fromEntries(fields.map(([field, about]) => [field, propertyOf(field, about)])),
    required: fields.filter(([, { required }]) => required === true).map(([field]) => field),
    presets: presets.flatMap(({ name, type, subscribe, partnerAction }) =>
      type === 'automatic' && subscribe !== undefined
        ? [{ name, subscribe: subscribe.replace(/\s+/g, ' ').trim(), action: partnerAction }]
        : [],
    ),
    actions: Object.keys(actions),
    hasTest: authentication?.testAuthentication !== undefined,
  };
}

function propertyOf(
  name: string,
  { label, description, type, choices, default: byDefault }: PackField,
): JsonObject {
  const kind = type === 'boolean' ? 'boolean' : type === 'number' || type === 'integer' ? 'number' : 'string';
  const values = choices?.map((choice) => (typeof choice === 'string' ? choice : choice.value));
  const words = description.replace(/\s+/g, ' ').trim();
  return {
    type: kind,
    title: label.trim(),
    description: /[.!?)]$/.test(words) ? words : `${words}.`,
    ...(kind === 'string' ? { maxLength: 2_048 } : {}),
    ...(values === undefined ? {} : { enum: values }),
    ...(byDefault === undefined ? {} : { default: byDefault }),
    ...(isSecret(name, type) ? { writeOnly: true } : {}),
  };
}

/** The pack marks few of them. Better one too many than a key that is shown. */
function isSecret(name: string, type: string | undefined): boolean {
  return type === 'password' || /key|secret|token|password/i.test(name);
}
