import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { Agent } from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { sendRequest } from './client.ts';

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** An agent, and the URL of a server with this answer; `connections` counts the opened connections. */
async function talk(answer: (response: ServerResponse) => void) {
  const seen = { connections: 0 };
  const server = createServer((request, response) => {
    request.resume().on('end', () => answer(response));
  });
  server.on('connection', () => {
    seen.connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ends.push(
    () => server.closeAllConnections(),
    () => server.close(),
  );
  const agent = new Agent({ connections: 1 });
  ends.push(() => agent.destroy());
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/path?q=1`);
  const ask = (signal = new AbortController().signal, kept?: number) =>
    sendRequest(agent, { method: 'POST', url, headers: ['a', 'b'], body: 'x' }, signal, kept);
  return { seen, ask };
}

const text = ({ start }: { start: Uint8Array }) => Buffer.from(start).toString();

describe('an answer', () => {
  it('is a status line, its Retry-After and its body', async () => {
    const { ask } = await talk((response) => response.writeHead(503, { 'retry-after': '7' }).end('busy'));
    const answer = await ask();
    expect(answer).toMatchObject({ status: 503, retryAfter: '7', whole: true });
    expect(text(answer)).toBe('busy');
  });

  it('follows any number of interim responses', async () => {
    const { ask } = await talk((response) => {
      response.writeProcessing();
      response.writeEarlyHints({ link: '</a>; rel=preload' });
      response.writeHead(204).end();
    });
    expect(await ask()).toMatchObject({ status: 204, whole: true });
  });

  it('is kept as far as asked, and its connection is used again', async () => {
    const { ask, seen } = await talk((response) => response.end('y'.repeat(5_000)));
    for (let n = 0; n < 3; n++) {
      const answer = await ask(undefined, 1_000);
      expect(answer).toMatchObject({ status: 200, whole: false });
      expect(text(answer)).toBe('y'.repeat(1_000));
    }
    expect(seen.connections).toBe(1);
  });

  it('that is longer than is read of one costs its connection, and stands', async () => {
    const { ask, seen } = await talk((response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write('z'.repeat(4_096)), 1);
      response.on('close', () => clearInterval(timer));
    });
    for (let n = 0; n < 2; n++) {
      const answer = await ask();
      expect(answer).toMatchObject({ status: 200, whole: false });
      expect(text(answer)).toBe('z'.repeat(1_024));
    }
    expect(seen.connections).toBe(2);
  });

  it('counts once its status line arrived, also when the body breaks off or the time is over', async () => {
    const broken = await talk((response) => {
      response.writeHead(200, { 'content-length': '10' });
      response.write('part', () => response.destroy());
    });
    expect(await broken.ask()).toMatchObject({ status: 200, whole: false });
    const over = new AbortController();
    const dripping = await talk((response) => {
      response.writeHead(200).write('drip');
      setTimeout(() => over.abort(new Error('over')), 50);
    });
    const answer = await dripping.ask(over.signal);
    expect(answer).toMatchObject({ status: 200, whole: false });
    expect(text(answer)).toBe('drip');
  });

  it('that does not come is the reason of the signal, and nothing follows', async () => {
    const over = new AbortController();
    const { ask } = await talk(() => setTimeout(() => over.abort(new Error('over')), 20));
    await expect(ask(over.signal)).rejects.toThrow('over');
    await expect(ask(over.signal)).rejects.toThrow('over');
  });

  it('is not waited for behind a connection that is not there yet', async () => {
    const server = createTcpServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    ends.push(() => server.close());
    const agent = new Agent({ connect: () => undefined, connections: 1 });
    ends.push(() => agent.destroy());
    const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    const over = new AbortController();
    const asked = sendRequest(agent, { method: 'POST', url, headers: [] }, over.signal);
    setTimeout(() => over.abort(new Error('over')), 20);
    await expect(asked).rejects.toThrow('over');
  });

  it('is an error of the network where no response arrived', async () => {
    const { ask } = await talk((response) => response.destroy());
    await expect(ask()).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' });
  });
});
