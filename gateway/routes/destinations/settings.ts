import { type ConnectorDescription, isSealed, type JsonObject } from '@tributary/core';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { ErrorDetail } from '../../errors/api-error.ts';
import { describeValidation } from '../../errors/validation.ts';

/**
 * What is wrong with settings in clear, by the connector's schema and then by its own check. What only looks sealed is
 * refused: it would not open.
 */
export type SettingsChecker = (
  description: ConnectorDescription,
  settings: JsonObject,
) => readonly ErrorDetail[];

/** Schemas are compiled once a connector. */
export function createSettingsChecker(): SettingsChecker {
  const ajv = new Ajv2020({ allErrors: true, allowUnionTypes: true });
  formats.default(ajv);
  const compiled = new Map<string, ValidateFunction>();

  function validatorOf({ type, settingsSchema }: ConnectorDescription): ValidateFunction {
    const known = compiled.get(type) ?? ajv.compile(settingsSchema);
    compiled.set(type, known);
    return known;
  }

  return (description, settings) => {
    const below = ({ path, message }: ErrorDetail) => ({ path: `/settings${path}`, message });
    const validate = validatorOf(description);
    validate(settings);
    const faults = describeValidation(validate.errors ?? [], 'body');
    if (faults.length > 0) return faults.map(below);
    const forged = Object.keys(settings).filter((name) => isSealed(settings[name]));
    if (forged.length > 0) return forged.map((name) => below({ path: `/${name}`, message: 'is not valid' }));
    return (description.check?.(settings) ?? []).map(below);
  };
}
