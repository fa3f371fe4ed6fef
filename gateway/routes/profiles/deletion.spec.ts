import { describe, expect, it } from 'vitest';
import { readDeletion } from './deletion.ts';

const UCID = '01890000-0000-7000-8000-00000000000a';
const read = (ids: Readonly<Record<string, readonly string[]>>) =>
  readDeletion({ orgId: 1, region: 'eu', ids });

describe('what a body wants to be deleted', () => {
  it('is each identity once, with every way in which it was written', () => {
    expect(read({ email: ['a@example.com', ' A@Example.com', 'b@example.com', 'a@example.com'] })).toEqual({
      regions: [{ name: 'eu', path: '/region' }],
      identities: [
        { type: 'email', value: 'a@example.com' },
        { type: 'email', value: 'b@example.com' },
      ],
      ucids: [],
      asSent: [['a@example.com', ' A@Example.com'], ['b@example.com']],
    });
  });

  it('is each ucid once, in lower case', () => {
    expect(read({ ucid: [UCID, UCID.toUpperCase()] })).toMatchObject({
      identities: [],
      ucids: [UCID],
      asSent: [[UCID, UCID.toUpperCase()]],
    });
  });

  it('is of each region once, at the place where it stood first', () => {
    const { regions } = readDeletion({ orgId: 1, regions: ['eu', 'us', 'eu'], ids: { AdId: ['x'] } });
    expect(regions).toEqual([
      { name: 'eu', path: '/regions/0' },
      { name: 'us', path: '/regions/1' },
    ]);
  });
});
