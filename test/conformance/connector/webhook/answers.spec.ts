import type { ConnectorCatalog } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connectorOf, createTestConnectors, delivery, destination, unhurried } from '../suite/harness.ts';
import { type RecordingServer, startRecordingServer } from '../suite/recording-server.ts';
import { WEBHOOK_SECRET } from './harness.ts';

describe('a webhook that received a delivery again although it', () => {
  let server: RecordingServer;
  let connectors: ConnectorCatalog;
  beforeEach(async () => {
    server = await startRecordingServer();
    connectors = createTestConnectors({ egressAllow: ['127.0.0.0/8'] });
  });
  afterEach(async () => {
    await connectors.close();
    await server.close();
  });

  const ownDestination = () => destination({ url: server.url, secret: WEBHOOK_SECRET });
  const sendOne = async () =>
    (await connectorOf(connectors, 'webhook').deliver(ownDestination(), [delivery()], unhurried))[0];

  const HEAD = 'HTTP/1.1 200 OK\r\n';
  const long = Array.from({ length: 90 }, (_, n) => `x-trace-${n}: ${'y'.repeat(900)}\r\n`).join('');
  const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';
  it.each([
    ['an interim answer before it', `${CONTINUE}HTTP/1.1 202 \r\ncontent-length: 2\r\n\r\nok`, 202],
    ['several of them', `${CONTINUE.repeat(3)}HTTP/1.1 103 x\r\nlink: </a>\r\n\r\n${HEAD}\r\n`, 200],
    ['80 KB of headers', `${HEAD}${long}content-length: 2\r\n\r\nok`, 200],
    ['one header of 60 KB', `${HEAD}x-a: ${'z'.repeat(60_000)}\r\ncontent-length: 2\r\n\r\nok`, 200],
    ['its length three times', `${HEAD}${'Content-Length: 2\r\n'.repeat(3)}\r\nok`, 200],
    ['its length as a list', `${HEAD}content-length: 2, 2\r\n\r\nok`, 200],
    ['two lengths', `${HEAD}content-length: 2\r\ncontent-length: 4\r\n\r\nok`, 200],
    ['a length that is none', `${HEAD}content-length: two\r\n\r\nok`, 200],
    [
      'a length beside chunks',
      `${HEAD}content-length: 9\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
      200,
    ],
    ['a line that is no header', `${HEAD}what is this\r\n: nothing\r\nx y: z\r\n\r\n`, 200],
    ['line feeds alone', 'HTTP/1.1 201 Created\ncontent-length: 2\n\nok', 201],
    ['a folded header', `${HEAD}x-a: b\r\n  c\r\ncontent-length: 0\r\n\r\n`, 200],
    ['a byte of nothing in a header', `${HEAD}x-a: \0\r\n\r\n`, 200],
    ['HTTP/1.0', 'HTTP/1.0 200 OK\r\n\r\nok', 200],
    ['chunks that are none', `${HEAD}transfer-encoding: chunked\r\n\r\nzz\r\n`, 200],
    ['a body that is longer than it says', `${HEAD}content-length: 1\r\n\r\n${'x'.repeat(99)}`, 200],
    ['a header that breaks off', `${HEAD}content-le`, 200],
    ['headers that break off above any bound', `${HEAD}${long}${long}`, 200],
  ])('answers with %s: the status line is the answer', async (_, answer, status) => {
    server.answer = (_response, socket) => socket.end(answer);
    expect(await sendOne()).toMatchObject({ outcome: 'delivered', status });
    expect(server.requests).toHaveLength(1);
  });

  it('answers byte by byte, with an interim answer before: the status line is the answer', async () => {
    server.answer = (_, socket) => {
      socket.setNoDelay();
      const bytes = [...`${CONTINUE}HTTP/1.1 204 \r\nretry-after: 1\r\n\r\n`];
      const drip = () => {
        const byte = bytes.shift();
        if (byte !== undefined) socket.write(byte, () => setImmediate(drip));
      };
      drip();
    };
    for (let n = 0; n < 3; n++) expect(await sendOne()).toEqual({ outcome: 'delivered', status: 204 });
  });

  it('answers 100 before each 200, and its connection is used again', async () => {
    server.answer = (response) => {
      response.writeContinue();
      response.writeHead(200).end('ok');
    };
    const same = ownDestination();
    for (let n = 0; n < 9; n++) {
      const [result] = await connectorOf(connectors, 'webhook').deliver(same, [delivery()], unhurried);
      expect(result).toMatchObject({ outcome: 'delivered', response: 'ok' });
    }
    expect(server.connections.taken).toBeLessThanOrEqual(2);
  });

  it('sends an ambiguous response: its connection serves no other request', async () => {
    const smuggled = 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n';
    const head = `HTTP/1.1 500 no\r\ncontent-length: 0\r\ncontent-length: ${smuggled.length}\r\n\r\n`;
    server.answer = (_, socket) => socket.write(head + smuggled);
    // Each response ends at the timeout.
    await connectors.close();
    connectors = createTestConnectors({ egressAllow: ['127.0.0.0/8'], timeoutMs: 1_000 });
    const same = ownDestination();
    for (let n = 0; n < 2; n++) {
      const [result] = await connectorOf(connectors, 'webhook').deliver(same, [delivery()], unhurried);
      expect(result).toMatchObject({ outcome: 'retry', status: 500 });
    }
    expect(server.connections.taken).toBeGreaterThanOrEqual(2);
  });
});
