import type { Operation } from '@tributary/core';
import { expect, it } from 'vitest';
import { openTestGateway } from '../../helpers/gateway.ts';
import { describePermissions } from './permission-reference.ts';

it('docs/reference/permissions.md equals the permission table and the routes', async () => {
  const { routes, close } = await openTestGateway();
  await close();
  const calls = routes.map(({ method, url, config }) => ({
    method: String(method),
    path: url.replace('/api/v1', ''),
    operation: config?.operation as Operation,
  }));
  await expect(describePermissions(calls)).toMatchFileSnapshot('../../../docs/reference/permissions.md');
});
