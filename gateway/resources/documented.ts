/** Holds keywords for the OpenAPI document that validators ignore: they describe checks of the code. */
export const DOCUMENTED = 'x-documented';

/** Adds keywords to a schema in the OpenAPI document, or replaces its own there. */
export function documentedAs(keywords: Readonly<Record<string, unknown>>) {
  return { [DOCUMENTED]: keywords };
}
