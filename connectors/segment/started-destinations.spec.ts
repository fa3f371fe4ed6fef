import { expect, it } from 'vitest';
import { type PackDestination, StartedDestinations } from './pack.ts';

it('answers were kept for as long as any job ran: each job that ends drops them', async () => {
  const running: PackDestination = {
    responses: [],
    actions: {},
    executeDynamicField: async () => undefined,
    createAudience: async () => undefined,
    getAudience: async () => undefined,
    onSubscription: async () => [],
    testAuthentication: async () => undefined,
    refreshAccessToken: async () => undefined,
  };
  const destinations = new StartedDestinations(() => ({ definition: { name: 'n', actions: {} }, running }));
  const steady = Promise.withResolvers<void>();
  const other = destinations.use('posthog', () => steady.promise);
  for (let n = 0; n < 3; n++) {
    await destinations.use('posthog', async (started) => void started.running.responses.push('an answer'));
    expect(running.responses).toEqual([]);
  }
  steady.resolve();
  await other;
});
