import type { DocumentWrite } from './documents.ts';

/** Of a name of a document; Elasticsearch takes 512 bytes and refuses the whole request for a longer one. */
export const MAX_ID_BYTES = 512;

/** The lines of a bulk request that carry one write. The alias must exist: a bulk would make an index without mapping. */
export function linesOf({ id, expected, source }: DocumentWrite, alias: string): readonly string[] {
  const target = { _index: alias, _id: id, require_alias: true };
  if (expected === 'absent') return [JSON.stringify({ create: target }), JSON.stringify(source)];
  const condition = { ...target, if_seq_no: expected.seqNo, if_primary_term: expected.primaryTerm };
  return source === 'removed'
    ? [JSON.stringify({ delete: condition })]
    : [JSON.stringify({ index: condition }), JSON.stringify(source)];
}
