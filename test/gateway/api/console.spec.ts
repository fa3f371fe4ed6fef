import { expect, it } from 'vitest';
import { openTestGateway } from '../../helpers/gateway.ts';

it.each([
  ['is there', {}, [302, 200]],
  ['is left out with TRIBUTARY_CONSOLE=0', { TRIBUTARY_CONSOLE: '0' }, [404, 404]],
])('the console %s', async (_, env, statuses) => {
  const { app, close } = await openTestGateway({ env });
  const answers = ['/', '/console/config.json'].map(async (url) => (await app.inject({ url })).statusCode);
  expect(await Promise.all(answers)).toEqual(statuses);
  await close();
});
