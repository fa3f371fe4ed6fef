import { expect, it } from 'vitest';
import { ApiError } from '../api/errors.ts';
import { errorText } from './error-text.ts';

const conflict = (body: object) => errorText(new ApiError('conflict', { status: 409, body: { ...body } }));
const RULE = { kind: 'rule', id: '0198c5a2', name: 'Orders to the CRM' };

it.each([
  [{ reason: 'in_use', causes: [RULE] }, 'It is in use. Change first: rule "Orders to the CRM".'],
  [
    {
      reason: 'in_use',
      causes: [
        { kind: 'region', id: 'ap' },
        { kind: 'write_key', id: 'k', name: 'Web' },
      ],
    },
    'It is in use. Change first: region ap, write key "Web".',
  ],
  [{ reason: 'taken', causes: [] }, 'Something else has this already.'],
  [{ quota: 'enabled_rules', limit: 200 }, 'At most 200: enabled rules.'],
])('a conflict said that something used it, and not what: %j', (body, hint) => {
  expect(conflict(body)).toEqual({ title: 'conflict', hint });
});

it('a failed test of a transformation in use was shown as a conflict', () => {
  const details = [{ path: '/test_output', message: 'output: differs: returned 4, expected 5' }];
  expect(conflict({ reason: 'test_failed', causes: [RULE], details })).toEqual({
    title: 'The test failed',
    hint: 'Its test fails, so the rules that use it could not run it. Nothing was saved. Used by rule "Orders to the CRM".',
  });
});
