import { describe, expect, it } from 'vitest';
import { keptSecrets, MASK, maskSecrets, statedSettings } from './secrets.ts';

const sealed = { $sealed: 'k1.iv.text' };

describe('statedSettings', () => {
  it('leaves out what says nothing: null, and a mask in the place of a secret', () => {
    const settings = { url: 'https://a.example', secret: MASK, headers: null, note: MASK };
    expect(statedSettings(settings, ['secret', 'headers'])).toEqual({ url: 'https://a.example', note: MASK });
  });
});

describe('keptSecrets', () => {
  it('is every stored secret that is not stated anew', () => {
    const stored = { url: 'https://a.example', secret: sealed, headers: sealed };
    expect(keptSecrets(stored, { headers: {} }, ['secret', 'headers'])).toEqual({ secret: sealed });
  });
});

describe('maskSecrets', () => {
  it('masks what is named a secret and what is sealed', () => {
    expect(maskSecrets({ url: 'u', secret: 'clear', headers: sealed }, ['secret'])).toEqual({
      url: 'u',
      secret: MASK,
      headers: MASK,
    });
  });
});
