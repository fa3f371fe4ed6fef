import { describe, expect, it } from 'vitest';
import { REFUSALS, refusalResponses, refusalsOf } from './refusals.ts';

const reading = {
  method: 'get',
  namesResource: false,
  isOfCatalog: true,
  takesVersion: false,
  isPublic: false,
};

describe('the refusals of a call', () => {
  it('of a list are those that any call may receive', () => {
    expect(refusalsOf(reading)).toEqual([400, 401, 403, 429, 500, 503]);
  });

  it('that names an entity may be that it does not exist', () => {
    expect(refusalsOf({ ...reading, namesResource: true })).toContain(404);
  });

  it('that replaces an entity may concern its body, its version, or the present entity', () => {
    const all = refusalsOf({ ...reading, method: 'put', namesResource: true, takesVersion: true });
    expect(all).toEqual(Object.keys(REFUSALS).map(Number));
  });

  it('that sends events know no conflict', () => {
    const statuses = refusalsOf({ ...reading, method: 'post', isOfCatalog: false });
    expect(statuses).toEqual([400, 401, 403, 413, 415, 429, 500, 503]);
  });

  it('of public calls have no 401 and no 403', () => {
    const statuses = refusalsOf({ ...reading, method: 'post', isOfCatalog: false, isPublic: true });
    expect(statuses).toEqual([400, 413, 415, 500]);
  });

  it('state when to retry where the caller should', () => {
    const { TooManyRequests, Unavailable, NotFound } = refusalResponses();
    expect(
      [TooManyRequests, Unavailable, NotFound].map(
        (response) => response?.headers?.['Retry-After'] !== undefined,
      ),
    ).toEqual([true, true, false]);
  });
});
