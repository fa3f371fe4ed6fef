/**
 * What the names of an installation's indices begin with. Names of indices have no capitals: each is written as `=`
 * and the small letter, so that no two prefixes meet.
 */
export function indexPrefix(prefix: string): string {
  return `tributary-${prefix.replace(/[A-Z]/g, (capital) => `=${capital.toLowerCase()}`)}`;
}
