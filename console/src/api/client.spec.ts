import { afterEach, expect, it, vi } from 'vitest';

const HOUR_MS = 3_600_000;

afterEach(() => {
  vi.unstubAllGlobals();
  vi.resetModules();
});

/** The modules of a page with a signed-in person, and the requests that it sends. */
async function signedInPage({
  answer = async () => Response.json([]),
  expiresInMs = HOUR_MS,
}: {
  readonly answer?: () => Promise<Response>;
  readonly expiresInMs?: number;
} = {}) {
  const sent: (string | null)[] = [];
  vi.stubGlobal('location', { origin: 'http://localhost:4000', search: '' });
  vi.stubGlobal('history', { replaceState() {} });
  vi.stubGlobal('fetch', async (request: Request) => {
    sent.push(request.headers.get('authorization'));
    return answer();
  });
  const session = await import('../session/session.ts');
  const { api } = await import('./client.ts');
  session.signedIn(
    { token: 'first', expiresAt: Date.now() + expiresInMs },
    { renew: async () => undefined, signOut: async () => undefined },
  );
  return { session, sent, list: () => api.GET('/api/v1/workspaces', {}) };
}

it('sends the token of the person with a call', async () => {
  const { list, sent } = await signedInPage();
  await list();
  expect(sent).toEqual(['Bearer first']);
});

it('sends no call without a token where the person signs out while it is renewed', async () => {
  const { session, list, sent } = await signedInPage({ expiresInMs: 1_000 });
  const begun = list();
  await session.signOut();
  await expect(begun).rejects.toMatchObject({ name: 'ApiError', status: 401 });
  await expect(list()).rejects.toMatchObject({ name: 'ApiError', status: 401 });
  expect(sent).toEqual([]);
});

it('sends a refused call no second time where the person signs out meanwhile', async () => {
  const refusal = Promise.withResolvers<Response>();
  const { session, list, sent } = await signedInPage({ answer: () => refusal.promise });
  const refused = list();
  await expect.poll(() => sent).toHaveLength(1);
  session.sessionEnded();
  refusal.resolve(Response.json({ error: 'not authenticated' }, { status: 401 }));
  await session.signOut();
  await expect(refused).rejects.toMatchObject({ status: 401 });
  expect(sent).toEqual(['Bearer first']);
});
