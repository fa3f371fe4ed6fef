import type { FastifySchemaValidationError } from 'fastify';
import { VISIBLE } from '../resources/schemas.ts';
import type { ErrorDetail } from './api-error.ts';

/** Faults that one response reports, at most. */
export const MAX_DETAILS = 20;

const TYPE_WORDS: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  integer: 'an integer',
  boolean: 'true or false',
  object: 'an object',
  array: 'an array',
  null: 'null',
};

/** The findings of a validator as error details. */
export function describeValidation(
  findings: readonly FastifySchemaValidationError[],
  context: string | undefined,
): readonly ErrorDetail[] {
  const details = new Map<string, ErrorDetail>();
  for (const finding of findings) {
    if (details.size === MAX_DETAILS) break;
    const detail = isRepeated(finding, context)
      ? { path: finding.instancePath, message: 'is given more than once' }
      : describe(finding);
    if (detail === undefined) continue;
    const path =
      context === 'querystring' || context === 'headers' ? detail.path.replace(/^\//, '') : detail.path;
    if (!details.has(path)) details.set(path, { path, message: detail.message });
  }
  return [...details.values()];
}

/** The values of a query are texts, and lists where a name is given several times. */
function isRepeated({ keyword, params }: FastifySchemaValidationError, context: string | undefined): boolean {
  return context === 'querystring' && keyword === 'type' && params.type === 'string';
}

function describe({ keyword, instancePath, params }: FastifySchemaValidationError): ErrorDetail | undefined {
  const at = (message: string, child?: unknown): ErrorDetail => ({
    path: child === undefined ? instancePath : `${instancePath}/${String(child)}`,
    message,
  });
  switch (keyword) {
    case 'required':
      return at('is required', params.missingProperty);
    case 'additionalProperties':
      return at('is not a known field', params.additionalProperty);
    case 'type':
      return at(`must be ${typeWords(params.type)}`);
    case 'enum':
      return at(
        `must be one of ${(params.allowedValues as unknown[]).map((value) => JSON.stringify(value)).join(', ')}`,
      );
    case 'const':
      return at(`must be ${JSON.stringify(params.allowedValue)}`);
    case 'minLength':
      return at(params.limit === 1 ? 'must not be empty' : `must have at least ${params.limit} characters`);
    case 'maxLength':
      return at(`must have at most ${params.limit} characters`);
    case 'minItems':
      return at(`must have at least ${params.limit} items`);
    case 'maxItems':
      return at(`must have at most ${params.limit} items`);
    case 'minProperties':
      return at(params.limit === 1 ? 'must not be empty' : `must have at least ${params.limit} fields`);
    case 'uniqueItems':
      return at('must not hold the same item twice');
    case 'minimum':
      return at(`must be at least ${params.limit}`);
    case 'maximum':
      return at(`must be at most ${params.limit}`);
    case 'format':
      return at(`must be a valid ${params.format}`);
    case 'pattern':
      return at(
        params.pattern === VISIBLE
          ? 'must have a visible character, and no control characters or line breaks'
          : 'does not have the right form',
      );
    // The branches of a union have findings of their own.
    case 'anyOf':
    case 'oneOf':
    case 'if':
      return undefined;
    default:
      return at('is not valid');
  }
}

function typeWords(type: unknown): string {
  const types = Array.isArray(type) ? type : String(type).split(',');
  return types.map((name) => TYPE_WORDS[String(name)] ?? String(name)).join(' or ');
}
