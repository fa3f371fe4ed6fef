import { MAX_PROFILE_BYTES } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { ApiError } from '../../errors/api-error.ts';
import { readWrite } from './write.ts';

const WRITE = { orgId: 1, region: 'eu', ids: { AdId: 'x' } };
/** More than a profile can have of anything, in less than 4 MiB of body. */
const MANY = 200_000;

const names = <Value>(count: number, value: Value) =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`n${n}`, value]));

/** Status and paths of the refusal; undefined for an accepted body. */
function refusal(body: object) {
  try {
    readWrite({ ...WRITE, ...body }, 1_700_000_000_000, 'unset');
    return undefined;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { status: error.status, paths: error.details?.map(({ path }) => path) };
  }
}

describe('a write that names more than a profile can hold', () => {
  it('is refused for its identities without a look at any of them', () => {
    // Each item is invalid for its own reason, but only the excess number is reported.
    expect(refusal({ ids: names(501, 'null') })).toEqual({ status: 400, paths: ['/ids'] });
    const search = names(501, ['null']);
    const shape = { region: undefined, ids: undefined, regions: ['eu'] };
    expect(refusal({ ...shape, search })).toEqual({ status: 400, paths: ['/search'] });
    expect(refusal({ ...shape, search: { AdId: Array(501).fill('null') } })).toEqual({
      status: 400,
      paths: ['/search'],
    });
  });

  it.each<[string, object]>([
    ['categories', { profile: names(MANY, 1) }],
    ['attributes of one category', { profile: { home: names(MANY, 1) } }],
    ['categories without attributes', { profile: names(MANY, {}) }],
    ['preferences', { mkt_preferences: names(MANY, '') }],
    ['consents', { consent: names(MANY, '') }],
  ])('is refused for its %s, before faults are looked for', (_, upsert) => {
    expect(refusal({ upsert, ucid: 'x' })).toEqual({ status: 413, paths: ['/upsert'] });
  });

  it('is refused for its bytes, those of long characters counted as UTF-8', () => {
    const attributes = (character: string, bytes: number) => ({
      upsert: { profile: { home: { text: character.repeat(bytes / Buffer.byteLength(character)) } } },
    });
    for (const character of ['x', 'ß', '€']) {
      expect(refusal(attributes(character, MAX_PROFILE_BYTES))).toMatchObject({ status: 413 });
      expect(refusal(attributes(character, MAX_PROFILE_BYTES - 1024))).toBeUndefined();
    }
  });

  it('may hold many small attributes', () => {
    expect(refusal({ upsert: { profile: { home: names(20_000, 1) } } })).toBeUndefined();
  });
});
