import { InvalidInput, Unavailable } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { type ItemAnswer, outcomeOf } from './bulk-outcome.ts';

const refused = (status: number, type: string): ItemAnswer => ({ status, error: { type } });
const PUT: ItemAnswer = { status: 201 };
const IGNORED = refused(409, 'version_conflict_engine_exception');
const NEVER = refused(400, 'document_parsing_exception');

describe('the outcome of a bulk', () => {
  it('is fine where every entry was put, or a higher version is stored', () => {
    expect(outcomeOf([PUT, { status: 200 }, IGNORED])).toEqual({ homeless: [] });
    expect(outcomeOf([])).toEqual({ homeless: [] });
  });

  it.each([
    [429, 'es_rejected_execution_exception'],
    [503, 'unavailable_shards_exception'],
    [403, 'cluster_block_exception'],
    [400, 'index_closed_exception'],
  ])('is to be tried again after %i %s', (status, type) => {
    const { fault } = outcomeOf([PUT, NEVER, refused(status, type)]);
    expect(fault).toBeInstanceOf(Unavailable);
    expect(fault?.message).toBe(`Elasticsearch answered ${status} (${type})`);
  });

  it('is useless to try again where the rest can never be put', () => {
    expect(outcomeOf([PUT, NEVER, IGNORED]).fault).toBeInstanceOf(InvalidInput);
  });

  it('names the entries whose period has no index', () => {
    const gone = refused(404, 'index_not_found_exception');
    const { homeless, fault } = outcomeOf([PUT, gone, NEVER, gone]);
    expect(homeless).toEqual([1, 3]);
    expect(fault).toBeInstanceOf(Unavailable);
  });
});
