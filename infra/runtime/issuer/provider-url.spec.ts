import { describe, expect, it } from 'vitest';
import { isSafeUrl, keysUrlOf } from './provider-url.ts';

describe('where keys may come from', () => {
  it.each([
    'https://a.example',
    'http://localhost:1',
    'http://a.localhost',
    'http://127.1.2.3',
    'http://[::1]:8',
  ])('%s', (url) => expect(isSafeUrl(new URL(url))).toBe(true));

  it.each([
    'http://a.example',
    'http://127.0.0.1.a.example',
    'http://notlocalhost',
    'http://[::2]',
    'file:///x',
    'data:,x',
  ])('not %s', (url) => expect(isSafeUrl(new URL(url))).toBe(false));
});

describe('the keys of an issuer', () => {
  it('may be on another host', () => {
    expect(keysUrlOf('https://accounts.example', 'https://keys.example/certs')).toBe(
      'https://keys.example/certs',
    );
    expect(keysUrlOf('http://localhost:1', 'http://127.0.0.1:2/certs')).toBe('http://127.0.0.1:2/certs');
  });

  it.each([
    'http://accounts.example/certs',
    'https://localhost/certs',
    'http://[::1]/certs',
    'certs',
    '',
    7,
    null,
  ])('of one elsewhere are not at %j', (jwksUri) =>
    expect(keysUrlOf('https://accounts.example', jwksUri)).toBeUndefined(),
  );
});
