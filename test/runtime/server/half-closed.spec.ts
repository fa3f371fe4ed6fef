import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { open } from './raw-connection.ts';
import { openServedGateway } from './served-gateway.ts';

const { gateway, owner, writeKey, serve } = await openServedGateway();

describe('a client that closed its writing side', () => {
  /** An append that waits until the test releases it. */
  function blockedLog() {
    const { log } = gateway.dependencies;
    const gate = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const blocked = Object.create(log, {
      append: {
        value: async (...told: Parameters<typeof log.append>) => {
          begun.resolve();
          await gate.promise;
          return log.append(...told);
        },
      },
    });
    return { log: blocked, begun: begun.promise, letGo: () => gate.resolve() };
  }
  const trackRequest = (id: string) => {
    const body = JSON.stringify({ event: 'Half Closed', anonymous_id: 'a', message_id: id });
    return (
      `POST /api/v1/workspaces/${owner.workspaceId}/events/track HTTP/1.1\r\nhost: x\r\n` +
      `authorization: Bearer ${writeKey}\r\ncontent-type: application/json\r\n` +
      `content-length: ${body.length}\r\n\r\n${body}`
    );
  };
  const idsIn = (answer: string) => [...answer.matchAll(/"message_id":"([^"]*)"/g)].map(([, id]) => id);

  it('no answer came although the event was durable: it comes, and the connection ends', async () => {
    const { log, begun, letGo } = blockedLog();
    const { port } = await serve({}, { log });
    const { socket, answer, isOver } = await open(port);
    socket.end(trackRequest('half-1'));
    await begun;
    letGo();
    await expect.poll(isOver).toBe(true);
    expect(answer()).toMatch(/^HTTP\/1\.1 202 /);
    expect(idsIn(answer())).toEqual(['half-1']);
  });

  it('pipelined requests are each answered, in their order', async () => {
    const { log, begun, letGo } = blockedLog();
    const { port } = await serve({}, { log });
    const { socket, answer, isOver } = await open(port);
    socket.end(['p-1', 'p-2', 'p-3', 'p-4'].map(trackRequest).join(''));
    await begun;
    letGo();
    await expect.poll(isOver).toBe(true);
    expect(idsIn(answer())).toEqual(['p-1', 'p-2', 'p-3', 'p-4']);
  });

  it('the refusal of half a request was read as the answer of the whole one before it', async () => {
    const { log, begun, letGo } = blockedLog();
    const { port } = await serve({}, { log });
    const { socket, answer, isOver } = await open(port);
    socket.end(`${trackRequest('whole')}${trackRequest('half').slice(0, -9)}`);
    await begun;
    await sleep(50);
    expect(answer()).toBe('');
    letGo();
    await expect.poll(isOver).toBe(true);
    expect(answer().match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 202', 'HTTP/1.1 400']);
  });

  it('half a request, or none, holds no connection', async () => {
    const { port } = await serve();
    for (const part of ['', 'POST / HTTP/1.1\r\nhost: x\r\n', trackRequest('cut').slice(0, -1)]) {
      const { socket, isOver } = await open(port);
      socket.end(part);
      await expect.poll(isOver).toBe(true);
    }
  });
});
