import { describe, expect, it } from 'vitest';
import { isAdmitted, isIssuedToUs, profileScopes, subjectOf, verifiedEmail } from './claims.ts';

describe('the subject', () => {
  it.each([undefined, '', 7, 'x'.repeat(256)])('is nobody when it is %j', (sub) => {
    expect(subjectOf({ sub: sub as string })).toBeUndefined();
  });

  it('may have the length OpenID Connect allows', () => {
    expect(subjectOf({ sub: 'x'.repeat(255) })).toHaveLength(255);
  });
});

describe('the authorized party', () => {
  it('need not be there for a single audience, and may be another client of the same product then', () => {
    expect(isIssuedToUs({ aud: 'web' }, ['web'])).toBe(true);
    expect(isIssuedToUs({ aud: ['web'] }, ['web'])).toBe(true);
    expect(isIssuedToUs({ aud: 'web', azp: 'android' }, ['web'])).toBe(true);
  });

  it('must be ours where there are several audiences', () => {
    expect(isIssuedToUs({ aud: ['web', 'other'], azp: 'web' }, ['web'])).toBe(true);
    expect(isIssuedToUs({ aud: ['web', 'other'] }, ['web'])).toBe(false);
    expect(isIssuedToUs({ aud: ['web', 'other'], azp: 'other' }, ['web'])).toBe(false);
    expect(isIssuedToUs({ aud: ['web', 'other'], azp: ['web'] }, ['web'])).toBe(false);
  });
});

describe('the e-mail address', () => {
  it.each([true, 'true'])('counts when it is verified (%j)', (email_verified) => {
    expect(verifiedEmail({ email: 'Ada@Example.com', email_verified })).toBe('ada@example.com');
  });

  it.each([undefined, false, 'false', null, 1, 'yes'])('does not when its flag is %j', (email_verified) => {
    expect(verifiedEmail({ email: 'ada@example.com', email_verified })).toBeNull();
  });

  it.each([undefined, 7, '', 'ada', ['ada@example.com']])('does not when it is %j', (email) => {
    expect(verifiedEmail({ email, email_verified: true })).toBeNull();
  });

  it('lets in who is of a domain, and not of one that ends like it or lies below it', () => {
    expect(isAdmitted('ada@example.com', ['example.org', 'example.com'])).toBe(true);
    expect(isAdmitted('ada@badexample.com', ['example.com'])).toBe(false);
    expect(isAdmitted('ada@sub.example.com', ['example.com'])).toBe(false);
    expect(isAdmitted(null, ['example.com'])).toBe(false);
    expect(isAdmitted(null, [])).toBe(true);
  });
});

describe('the scopes of the profile API', () => {
  it.each([
    [{ scope: 'openid profile profile.read' }, ['profile.read']],
    [{ scopes: ['profile.read', 'email', 'profile.write'] }, ['profile.read', 'profile.write']],
    [{ scopes: 'profile.read,profile.delete' }, ['profile.read', 'profile.delete']],
    [{ scope: 'openid', scopes: ['profile.write'] }, ['profile.write']],
    [{ scope: 'profile.bogus' }, ['profile.bogus']],
  ])('are named by %j', (claims, scopes) => {
    expect(profileScopes(claims)).toEqual(scopes);
  });

  it.each([{}, { scope: 'openid profile' }, { scope: 7, scopes: [7, null, {}] }, { scope: '' }])(
    'are not named by %j',
    (claims) => {
      expect(profileScopes(claims)).toBeUndefined();
    },
  );
});
