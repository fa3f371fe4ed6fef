import { expect, it } from 'vitest';
import { apiErrorOf } from './errors.ts';

const refusal = (headers: Record<string, string>) =>
  apiErrorOf(new Response('{"error":"permission denied"}', { status: 403, headers }));

it('states the missing scope, as the header of a refusal does', async () => {
  const challenge =
    'Bearer realm="tributary", error="insufficient_scope", error_description="the role editor in the workspace is missing"';
  expect(await refusal({ 'WWW-Authenticate': challenge })).toMatchObject({
    message: 'permission denied',
    missing: 'the role editor in the workspace is missing',
  });
});

it('states none where a proxy answers with a challenge of its own, or with none', async () => {
  expect((await refusal({ 'WWW-Authenticate': 'Basic realm="proxy"' })).missing).toBeUndefined();
  expect((await refusal({})).missing).toBeUndefined();
});
