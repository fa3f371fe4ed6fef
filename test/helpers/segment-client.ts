import type { CanonicalEvent } from '@tributary/core';
import { vi } from 'vitest';
import type { Client } from './client.ts';
import { openTestGateway, type TestGateway } from './gateway.ts';

/** The header of `Basic` for a user. */
export const basic = (user: string, password = '') => ({
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
});

export interface Sent {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Readonly<Record<string, unknown>>;
  /** The events appended to the log. */
  readonly events: readonly CanonicalEvent[];
}

/** Posts to a gateway in this process, and returns the entries that it appends to the log. */
export async function sendCall(
  { app, dependencies }: TestGateway,
  url: string,
  payload: unknown,
  headers: Readonly<Record<string, string>>,
): Promise<Sent> {
  const append = vi.spyOn(dependencies.log, 'append');
  const answer = await app.inject({
    method: 'POST',
    url,
    headers: { 'content-type': 'application/json', ...headers },
    payload: typeof payload === 'string' || Buffer.isBuffer(payload) ? payload : JSON.stringify(payload),
  });
  const events = append.mock.calls.flatMap(([, entries]) =>
    entries.map(({ value }) => JSON.parse(String(value)) as CanonicalEvent),
  );
  append.mockRestore();
  return { status: answer.statusCode, headers: answer.headers, body: answer.json(), events };
}

/** A gateway with a workspace, and the default write key for SDKs. */
export interface SegmentGateway {
  readonly test: TestGateway;
  readonly owner: Client;
  readonly key: string;
  send(url: string, payload: unknown, headers?: Readonly<Record<string, string>>): Promise<Sent>;
}

export async function openSegmentGateway(): Promise<SegmentGateway> {
  const test = await openTestGateway();
  const owner = await test.openWorkspace();
  const named = { name: 'Web', environment: 'production' };
  const { key } = await owner.ok<{ key: string }>('POST', './event-keys', named);
  return {
    test,
    owner,
    key,
    send: (url, payload, headers = basic(key)) => sendCall(test, url, payload, headers),
  };
}
