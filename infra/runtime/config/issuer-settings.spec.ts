import { describe, expect, it } from 'vitest';
import { ConfigError, readConfig } from './config.ts';

const ISSUER = { issuer: 'https://accounts.example.com', audiences: ['web'] };
const issuers = (value: unknown) => readConfig({ TRIBUTARY_ISSUERS: JSON.stringify(value) }).issuers;

describe('TRIBUTARY_ISSUERS', () => {
  it('is empty if the variable is absent', () => {
    expect(readConfig({}).issuers).toEqual([]);
  });

  it('accepts asymmetric algorithms and all email domains by default', () => {
    expect(issuers([ISSUER])).toEqual([
      { ...ISSUER, algorithms: ['RS256', 'PS256', 'ES256', 'EdDSA'], emailDomains: [] },
    ]);
  });

  it('lists several issuers, each with its own rules', () => {
    const other = { issuer: 'http://localhost:8081/realms/a', audiences: ['a', 'b'] };
    const rules = { algorithms: ['ES512'], email_domains: ['Example.com'] };
    expect(issuers([ISSUER, { ...other, ...rules }])[1]).toEqual({
      ...other,
      algorithms: ['ES512'],
      emailDomains: ['example.com'],
    });
  });

  it.each<[string, unknown, RegExp]>([
    ['no list', ISSUER, /must be a JSON list/],
    ['no object', ['https://a.example'], /\[0\] must be an object/],
    [
      'a misspelt field',
      [{ ...ISSUER, audience: 'web' }],
      /\[0\] has the unknown field "audience"; there are issuer,/,
    ],
    ['no issuer', [{ audiences: ['web'] }], /\[0\] must have an issuer/],
    ['an issuer over http', [{ ...ISSUER, issuer: 'http://accounts.example.com' }], /must have an issuer/],
    [
      'a host that begins like this machine',
      [{ ...ISSUER, issuer: 'http://127.0.0.1.evil.example' }],
      /must have/,
    ],
    ['an issuer with a query', [{ ...ISSUER, issuer: 'https://a.example/?x=1' }], /must have an issuer/],
    ['an issuer with a password', [{ ...ISSUER, issuer: 'https://u:p@a.example' }], /must have an issuer/],
    ['no audience', [{ ...ISSUER, audiences: [] }], /must have audiences/],
    ['an empty audience', [{ ...ISSUER, audiences: [''] }], /must have audiences/],
    ['an audience that is no list', [{ ...ISSUER, audiences: 'web' }], /must have audiences/],
    ['HMAC', [{ ...ISSUER, algorithms: ['HS256'] }], /may have algorithms/],
    ['no signature', [{ ...ISSUER, algorithms: ['RS256', 'none'] }], /may have algorithms/],
    ['no algorithm', [{ ...ISSUER, algorithms: [] }], /may have algorithms/],
    ['an address for a domain', [{ ...ISSUER, email_domains: ['a@b.c'] }], /may have email_domains/],
    ['the same issuer twice', [ISSUER, ISSUER], /\[1\] is an issuer that was named before/],
  ])('refuses %s', (_, value, message) => {
    expect(() => issuers(value)).toThrow(ConfigError);
    expect(() => issuers(value)).toThrow(message);
  });

  it('refuses text that is not JSON', () => {
    expect(() => readConfig({ TRIBUTARY_ISSUERS: 'https://a.example' })).toThrow(/must be a JSON list/);
  });
});
