import { expect, it } from 'vitest';
import { MAX_AUDITED_BYTES, maskedEntity } from './audit-log.ts';

it('masks hashes, whatever is sealed, and settings that are called a secret', () => {
  const shown = maskedEntity({
    hash: 'planted',
    settings: {
      url: 'https://example.com',
      secret: { $sealed: 'local.planted.planted' },
      headers: { $sealed: 'local.planted.planted' },
      batch_size: 5,
      smtp: { host: 'mail', password: 'planted', 'api-key': 'planted', accessKey: ['planted'] },
      list: [{ $sealed: 'planted' }, { user: 'u', auth_token: 'planted' }],
    },
  });
  expect(JSON.stringify(shown)).not.toContain('planted');
  expect(shown).toMatchObject({
    hash: '***',
    settings: {
      url: 'https://example.com',
      secret: '***',
      headers: '***',
      batch_size: 5,
      smtp: { host: 'mail', password: '***', 'api-key': '***', accessKey: '***' },
      list: ['***', { user: 'u', auth_token: '***' }],
    },
  });
});

it('leaves what only looks like a secret outside of settings: a contract may speak about a field called token', () => {
  const schema_definition = { properties: { token: { type: 'string', required: true } } };
  expect(maskedEntity({ schema_definition })).toEqual({ schema_definition });
  expect(maskedEntity({ test_input: { a: [{ $sealed: 'planted' }] } })).toEqual({
    test_input: { a: ['***'] },
  });
});

it('states size and digest of a huge value', () => {
  const source_code = 'x'.repeat(MAX_AUDITED_BYTES);
  expect(maskedEntity({ id: 't', source_code })).toEqual({
    id: 't',
    source_code: {
      $omitted: { bytes: MAX_AUDITED_BYTES + 2, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
    },
  });
  expect(maskedEntity({ source_code: 'x' })).toEqual({ source_code: 'x' });
});
