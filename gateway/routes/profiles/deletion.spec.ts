import { describe, expect, it } from 'vitest';
import { missingOf, sentOf } from './bodies.ts';
import { readDeletion } from './deletion.ts';

const UCID = '01890000-0000-7000-8000-00000000000a';
function read(ids: Readonly<Record<string, readonly string[]>>) {
  const asked = readDeletion({ orgId: 1, region: 'eu', ids });
  const missing = (notFound: readonly number[]) => missingOf(asked.named, notFound);
  return {
    ...asked,
    notFoundAsSent: (notFound: readonly number[]) => sentOf(missing(notFound)),
    countNotFound: (notFound: readonly number[]) => missing(notFound).length,
  };
}

describe('the identities of a deletion request', () => {
  it('is each identity once, with every way in which it was written', () => {
    const asked = read({ email: ['a@example.com', ' A@Example.com', 'b@example.com', 'a@example.com'] });
    expect(asked).toMatchObject({
      regions: [{ name: 'eu', path: '/region' }],
      ucids: [],
      identityType: 'email',
    });
    expect(asked.named).toHaveLength(2);
    // Each with the spellings under which earlier releases may have stored it.
    const spelled = (name: string) => [name, `mailto:${name}`, `${name}.`, `<${name}>`];
    const [a, b] = [spelled('a@example.com'), spelled('b@example.com')];
    expect(asked.identities).toEqual([...a, ...b].map((value) => ({ type: 'email', value })));
    const every = [...asked.identities.keys()];
    const asSent = ['a@example.com', ' A@Example.com', 'b@example.com'];
    expect([asked.notFoundAsSent(every), asked.countNotFound(every)]).toEqual([asSent, 2]);
    const ofB = every.slice(a.length);
    expect([asked.notFoundAsSent(ofB), asked.countNotFound(ofB)]).toEqual([['b@example.com'], 1]);
  });

  it('missed whom an earlier release had stored under another spelling, or called them not found', () => {
    const asked = read({ email: ['zo\u00eb@b\u00fccher.example'] });
    const values = asked.identities.map(({ value }) => value);
    expect(values).toContain('zo\u00eb@xn--bcher-kva.example');
    expect(values).toContain('zoe\u0308@bu\u0308cher.example');
    const allButOne = [...values.keys()].slice(1);
    expect([asked.notFoundAsSent(allButOne), asked.countNotFound(allButOne)]).toEqual([[], 0]);
  });

  it('counts an invalid value, and names it as it was sent', () => {
    const asked = read({ AdId: ['none', 'a', 'None', 'b', 'none'] });
    expect(asked.named.map(({ indexes }) => indexes.size)).toEqual([0, 1, 0, 1]);
    expect(asked.identities.map(({ value }) => value)).toEqual(['a', 'b']);
    expect(asked.notFoundAsSent([1])).toEqual(['none', 'None', 'b']);
  });

  it('is each ucid once, in lower case', () => {
    const asked = read({ ucid: [UCID, UCID.toUpperCase()] });
    expect(asked).toMatchObject({ identities: [], ucids: [UCID] });
    expect(asked.notFoundAsSent([0])).toEqual([UCID, UCID.toUpperCase()]);
  });

  it('is of each region once, at the place where it stood first', () => {
    const { regions } = readDeletion({ orgId: 1, regions: ['eu', 'us', 'eu'], ids: { AdId: ['x'] } });
    expect(regions).toEqual([
      { name: 'eu', path: '/regions/0' },
      { name: 'us', path: '/regions/1' },
    ]);
  });
});
