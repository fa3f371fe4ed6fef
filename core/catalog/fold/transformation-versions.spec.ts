import { describe, expect, it } from 'vitest';
import type { Fact } from '../facts.ts';
import { fact, foldAll, transformation, WORKSPACE, workspace } from './catalog.fixture.ts';
import type { CatalogState } from './state.ts';
import { MAX_TRANSFORMATION_VERSIONS, MAX_VERSIONS_CHARS } from './transformation-versions.ts';

const FIRST = 'function transform(event) { return event; }';
const updated = (data: object, by = 'a2'): Fact => ({ ...fact('transformation.updated', 't1', data), by });

function versionsIn(state: CatalogState) {
  const found = state.entity('transformation', WORKSPACE, 't1');
  return found === undefined ? [] : state.transformationVersions.of(found);
}

function after(...facts: readonly Fact[]) {
  return versionsIn(foldAll([workspace(), transformation('t1'), ...facts]).state);
}

describe('the versions of a transformation', () => {
  it('are those of its source and test, by the number of the entity that began them', () => {
    const versions = after(
      updated({ name: 'renamed' }),
      updated({ source_code: 'second' }),
      updated({ status: 'error', last_error: 'x' }, 'stage:route'),
      updated({ source_code: 'second', test_input: { a: 1 } }, 'key:k'),
      updated({ source_code: FIRST, test_input: null }),
    );
    expect(versions.map(({ version, source_code, by }) => [version, source_code, by])).toEqual([
      [1, FIRST, 'a1'],
      [3, 'second', 'a2'],
      [5, 'second', 'key:k'],
      [6, FIRST, 'a2'],
    ]);
  });

  it('are not made by a fact that is refused', () => {
    const refused = { ...updated({ source_code: 'second' }), expected_version: 7 };
    expect(after(refused)).toHaveLength(1);
  });

  it('go with the transformation', () => {
    const { state } = foldAll([workspace(), transformation('t1'), fact('transformation.deleted', 't1', {})]);
    expect(state.transformationVersions.tables().kept?.size).toBe(0);
  });

  it('are bounded, the newest stay', () => {
    const many = Array.from({ length: 150 }, (_, n) => updated({ source_code: `source ${n}` }));
    const versions = after(...many);
    expect(versions).toHaveLength(MAX_TRANSFORMATION_VERSIONS);
    expect(versions.at(-1)).toMatchObject({ version: 151, source_code: 'source 149' });
    const large = (fill: string) => updated({ source_code: fill.repeat(MAX_VERSIONS_CHARS / 4) });
    expect(after(...'abcdef'.split('').map(large))).toHaveLength(3);
  });

  it('begin with what there is where an older release kept none', () => {
    const { state } = foldAll([workspace(), transformation('t1')]);
    state.transformationVersions.forget('t1');
    expect(versionsIn(state)).toMatchObject([{ version: 1, source_code: FIRST }]);
  });
});
