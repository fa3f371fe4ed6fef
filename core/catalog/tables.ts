/** A map or a set of a catalog's state, however deep. */
export type Table = Map<string, unknown> | Set<string>;

/** Tables of a part of the state, by names of their own. */
export function under(
  part: string,
  tables: Readonly<Record<string, Table>>,
): Readonly<Record<string, Table>> {
  return Object.fromEntries(Object.entries(tables).map(([name, table]) => [`${part}.${name}`, table]));
}
