import type { SchemaFault } from './contract.ts';
import { below } from './pointer.ts';
import type { SchemaDocument } from './schema-document.ts';
import type { SchemaNode } from './schema-node.ts';

/**
 * Where `unevaluatedItems` would have to know which items a `contains` took. The compiler counts the items seen from
 * the first on and cannot tell single ones, so it would call all of them evaluated: refused instead. The references
 * of the document must end; see `costOf`.
 */
export function unevaluatedFaults(document: SchemaDocument): readonly SchemaFault[] {
  const known = new Map<SchemaNode, boolean>();

  /** Whether a `contains` speaks about the very value this schema is applied to. */
  function contains(node: SchemaNode): boolean {
    const found = known.get(node) ?? look(node);
    known.set(node, found);
    return found;
  }

  function look(node: SchemaNode): boolean {
    return (
      node.parts.some(
        ({ keyword, place, node: part }) =>
          keyword === 'contains' || (place === 'here' && keyword !== 'not' && contains(part)),
      ) || node.refs.some(contains)
    );
  }

  return document.nodes
    .filter((node) => node.parts.some(({ keyword }) => keyword === 'unevaluatedItems') && contains(node))
    .map((node) => ({
      path: below(node.pointer, 'unevaluatedItems'),
      message: 'must not stand where contains applies too',
    }));
}
