import { type Catalog, CatalogState, digestOfRows, type Fact, rowsOf } from '@tributary/core';
import {
  contractFact,
  destinationFact,
  factOf,
  keyFact,
  memberFact,
  renameFact,
  workspaceFact,
} from '../suite/harness.ts';

/** An address that a rewrite forgets. */
const PLANTED = 'planted@example.com';
/** More than one record of rows. */
const LARGE = 'x'.repeat(300_000);

/** Proposes a fact that must be applied; returns its position. */
export async function offsetOf(catalog: Catalog, fact: Fact): Promise<number> {
  const verdict = await catalog.propose(fact);
  if (!verdict.applied) throw new Error(`refused: ${verdict.conflict}`);
  return verdict.position;
}

/** Adds facts of every kind that a rewrite must keep or drop; returns the last position. */
export async function fill(catalog: Catalog): Promise<number> {
  await offsetOf(catalog, workspaceFact());
  await offsetOf(catalog, contractFact('c1', 'order'));
  await offsetOf(catalog, renameFact('c1', 'second', 1));
  await offsetOf(catalog, renameFact('c1', 'third', 2));
  for (const id of ['d1', 'd2']) await offsetOf(catalog, destinationFact(id));
  await offsetOf(catalog, factOf('destination.deleted', 'd1', {}));
  await offsetOf(catalog, keyFact('k1', 'h1'));
  await offsetOf(catalog, factOf('api_key.revoked', 'k1', {}));
  await offsetOf(catalog, memberFact('m1', PLANTED));
  await offsetOf(catalog, factOf('workspace_member.removed', 'm1', {}));
  return offsetOf(catalog, factOf('destination.updated', 'd2', { name: LARGE }));
}

export function digestOf({ state }: Catalog): string {
  if (!(state instanceof CatalogState)) throw new Error('not a state that has rows');
  return digestOfRows(rowsOf(state));
}
