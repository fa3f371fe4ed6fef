import { type ConnectorDescription, isSealed, type JsonObject } from '@tributary/core';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { ErrorDetail } from '../../http/errors.ts';
import { describeValidation } from '../../http/validation.ts';

/**
 * What is wrong with settings as a user states them, by the connector's schema and then by its own check. `kept` names
 * secrets that stay as they are stored: sealed, so they are neither looked at nor missed. What only looks sealed is
 * refused: it would not open.
 */
export type SettingsChecker = (
  description: ConnectorDescription,
  settings: JsonObject,
  kept: readonly string[],
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

  return (description, settings, kept) => {
    const missed = (path: string) => kept.some((name) => path === `/${name}`);
    const below = ({ path, message }: ErrorDetail) => ({ path: `/settings${path}`, message });
    const validate = validatorOf(description);
    validate(settings);
    const faults = describeValidation(
      (validate.errors ?? []).filter(
        ({ keyword, params }) => !(keyword === 'required' && missed(`/${params.missingProperty}`)),
      ),
      'body',
    );
    if (faults.length > 0) return faults.map(below);
    const forged = Object.keys(settings).filter((name) => isSealed(settings[name]));
    if (forged.length > 0) return forged.map((name) => below({ path: `/${name}`, message: 'is not valid' }));
    return (description.check?.(settings) ?? []).filter(({ path }) => !missed(path)).map(below);
  };
}
