import { type ConnectorCatalog, type Delivery, isUuid, type JsonObject } from '@tributary/core';
import { Webhook } from 'standardwebhooks';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  connectorOf,
  createTestConnectors,
  deliveries,
  delivery,
  destination,
  unhurried,
} from '../suite/harness.ts';
import { answerWith, type RecordingServer, startRecordingServer } from '../suite/recording-server.ts';
import { WEBHOOK_SECRET } from './harness.ts';

describe('the webhook connector, on the wire', () => {
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

  const destinationWith = (settings: JsonObject = {}) =>
    destination({ url: server.url, secret: WEBHOOK_SECRET, ...settings });
  const send = (sent: readonly Delivery[], settings: JsonObject = {}) =>
    connectorOf(connectors, 'webhook').deliver(destinationWith(settings), sent, unhurried);
  /** For a request that ends at its timeout, after a first answer in time. */
  const beImpatient = async () => {
    await connectors.close();
    connectors = createTestConnectors({ egressAllow: ['127.0.0.0/8'], timeoutMs: 1_000 });
  };
  const sendOne = async (settings: JsonObject = {}) => (await send([delivery()], settings))[0];

  describe('the request', () => {
    it('has a signature that the official library verifies, and with no other secret', async () => {
      const sent = delivery();
      await send([sent]);
      const [request] = server.requests;
      const headers = request?.headers as Record<string, string>;
      expect(new Webhook(WEBHOOK_SECRET).verify(request?.body ?? '', headers)).toMatchObject({ id: sent.id });
      const other = new Webhook(`whsec_${Buffer.alloc(32, 6).toString('base64')}`);
      expect(() => other.verify(request?.body ?? '', headers)).toThrow();
      expect(() => new Webhook(WEBHOOK_SECRET).verify(`${request?.body} `, headers)).toThrow();
    });

    it('is a POST of JSON to the exact URL, with the delivery as its id', async () => {
      const sent = delivery();
      await send([sent]);
      expect(server.requests[0]).toMatchObject({
        method: 'POST',
        path: '/hook?key=in-the-query',
        headers: {
          'content-type': 'application/json',
          'user-agent': expect.stringMatching(/^tributary\/\d+\.\d+\.\d+$/),
          'webhook-id': sent.id,
          'idempotency-key': sent.id,
          'webhook-timestamp': expect.stringMatching(/^\d{10}$/),
        },
      });
    });

    it('has the headers of the settings, each once', async () => {
      await sendOne({ headers: { Authorization: 'Bearer t', 'User-Agent': 'mine', 'x-empty': '' } });
      const headers = server.requests[0]?.headers;
      expect(headers).toMatchObject({ authorization: 'Bearer t', 'user-agent': 'mine', 'x-empty': '' });
      const names = server.requests[0]?.rawHeaders.filter((_, at) => at % 2 === 0) ?? [];
      expect(names.map((name) => name.toLowerCase()).sort()).toEqual(Object.keys(headers ?? {}).sort());
    });

    it('contains a batch, also of one, when batch_size is above 1', async () => {
      const [first, second, third] = [delivery(1), delivery(2), delivery(3)];
      await send([first, second, third], { batch_size: 2 });
      const bodies = server.requests.map(({ body }) => JSON.parse(body));
      expect(bodies).toMatchObject([
        { type: 'batch', deliveries: [{ id: first.id, type: 'event', attempt: 1 }, { id: second.id }] },
        { type: 'batch', deliveries: [{ id: third.id }] },
      ]);
      expect(Object.keys(bodies[0])).toEqual(['type', 'deliveries']);
    });

    it('has a batch id derived from its deliveries, the same every time', async () => {
      const sent = deliveries(2);
      await send(sent, { batch_size: 2 });
      await send(sent, { batch_size: 2 });
      await send([...sent].reverse(), { batch_size: 2 });
      const ids = server.requests.map(({ headers }) => String(headers['webhook-id']));
      expect(ids.every(isUuid)).toBe(true);
      expect(ids[1]).toBe(ids[0]);
      expect(ids[2]).not.toBe(ids[0]);
      expect(server.requests.map(({ headers }) => headers['idempotency-key'])).toEqual(ids);
      const [request] = server.requests;
      new Webhook(WEBHOOK_SECRET).verify(request?.body ?? '', request?.headers as Record<string, string>);
    });

    it('reuses a connection', async () => {
      server.answer = answerWith(200, 'x'.repeat(4_000));
      const same = destinationWith();
      for (let n = 0; n < 20; n++)
        await connectorOf(connectors, 'webhook').deliver(same, [delivery()], unhurried);
      expect(server.requests).toHaveLength(20);
      // Two connections alternate: the one just used becomes free only a moment after its answer was read.
      expect(server.connections.taken).toBeLessThanOrEqual(2);
    });
  });

  describe('the response', () => {
    // client.spec.ts has every status.
    it.each([
      [204, 'delivered', ''],
      [503, 'retry', 'busy'],
      [422, 'dead', 'no'],
    ])('%d is the outcome %s', async (status, outcome, response) => {
      server.answer = answerWith(status, response);
      const why = outcome === 'delivered' ? {} : { reason: `answered ${status}`, response };
      expect(await sendOne()).toEqual({ outcome, status, ...why });
    });

    it.each([302, 307])('%d is dead at once, and its location is not requested', async (status) => {
      server.answer = answerWith(status, '', { location: `http://127.0.0.1:${server.port}/elsewhere` });
      expect(await sendOne()).toMatchObject({ outcome: 'dead', reason: 'redirects are not followed' });
      expect(server.requests).toHaveLength(1);
    });

    it('sets the time of the retry, in seconds or by a date', async () => {
      server.answer = answerWith(429, '', { 'retry-after': '7' });
      expect(await sendOne()).toMatchObject({ outcome: 'retry', afterMs: 7_000 });
      server.answer = answerWith(503, '', { 'retry-after': new Date(Date.now() + 60_000).toUTCString() });
      const result = await sendOne();
      const afterMs = result !== undefined && 'afterMs' in result ? result.afterMs : undefined;
      expect(afterMs).toBeGreaterThan(50_000);
      expect(afterMs).toBeLessThanOrEqual(60_000);
    });

    it('applies to every delivery of a batch', async () => {
      server.answer = answerWith(503, 'busy');
      const results = await send(deliveries(3), { batch_size: 3 });
      expect(results).toEqual(Array(3).fill(expect.objectContaining({ outcome: 'retry', status: 503 })));
    });

    it('of 413 to a batch does not fail its valid deliveries', async () => {
      const status = 413;
      const sent = deliveries(7);
      const bad = sent[4]?.id ?? '';
      server.answer = (response, socket) => {
        const refuses = server.requests.at(-1)?.body.includes(bad);
        answerWith(refuses ? status : 204)(response, socket);
      };
      const results = await send(sent, { batch_size: 100 });
      const dead = { outcome: 'dead', status, reason: `answered ${status}` };
      const delivered = { outcome: 'delivered', status: 204 };
      expect(results).toEqual(sent.map(({ id }) => (id === bad ? dead : delivered)));
      const bodies = server.requests.map(({ body }) => JSON.parse(body));
      expect(bodies.map(({ type }) => type)).toEqual(bodies.map(() => 'batch'));
      expect(bodies.filter(({ deliveries: { length } }) => length === 1).length).toBeGreaterThan(0);
      expect(new Set(server.requests.map(({ headers }) => headers['webhook-id'])).size).toBe(bodies.length);
    });

    it('of 404 to a batch applies to all of it: one request', async () => {
      const status = 404;
      server.answer = answerWith(status);
      const results = await send(deliveries(4), { batch_size: 4 });
      expect(results).toEqual(Array(4).fill({ outcome: 'dead', status, reason: `answered ${status}` }));
      expect(server.requests).toHaveLength(1);
    });

    it('that stops while a refused batch is sent in parts has one deadline, and the rest is retried', async () => {
      await beImpatient();
      server.answer = (response, socket) => {
        if (server.requests.length <= 2)
          answerWith(server.requests.length === 1 ? 400 : 204)(response, socket);
      };
      const results = await send(deliveries(8), { batch_size: 8 });
      expect(server.requests).toHaveLength(3);
      expect(results.filter(({ outcome }) => outcome === 'delivered').length).toBeGreaterThan(0);
      expect(results.map(({ outcome }) => outcome)).not.toContain('dead');
      expect(results.at(-1)).toMatchObject({
        outcome: 'retry',
        reason: expect.stringContaining('timed out'),
      });
    });

    it('is kept as an excerpt of a kilobyte, and an endless one is not read further', async () => {
      const piece = 'x'.repeat(65_536);
      let written = 0;
      server.answer = (response) => {
        response.writeHead(500);
        const flood = () => {
          do written += piece.length;
          while (response.write(piece) && !response.destroyed);
        };
        response.on('drain', flood);
        flood();
      };
      const result = await sendOne();
      expect(result).toMatchObject({ outcome: 'retry', status: 500, response: 'x'.repeat(1_024) });
      await expect.poll(() => server.connections.open).toBe(0);
      // Bounded by the buffers between the two sides, far below the volume that a second could carry.
      expect(written).toBeLessThan(32 * 1_024 * 1_024);
    });
  });

  describe('a destination that misbehaves', () => {
    it('sends an endless header byte by byte: the status counts, and the connection ends at the timeout', async () => {
      await beImpatient();
      server.answer = (_, socket) => {
        socket.write('HTTP/1.1 200 OK\r\n');
        const drip = setInterval(() => socket.write('x-drip: 1\r\n'), 20);
        socket.on('close', () => clearInterval(drip)).on('error', () => clearInterval(drip));
      };
      expect(await sendOne()).toEqual({ outcome: 'delivered', status: 200 });
      await expect.poll(() => server.connections.open).toBe(0);
    });

    it('sends an endless body byte by byte: the status counts, and the connection ends at the timeout', async () => {
      await beImpatient();
      server.answer = (response) => {
        response.writeHead(200).write('taken');
        const drip = setInterval(() => response.write('.'), 20);
        response.on('close', () => clearInterval(drip));
      };
      expect(await sendOne()).toMatchObject({
        outcome: 'delivered',
        status: 200,
        response: expect.stringMatching(/^taken/),
      });
      await expect.poll(() => server.connections.open).toBe(0);
    });

    it.each([
      [200, 'delivered'],
      [500, 'retry'],
      [400, 'dead'],
    ])('closes in the middle of the body of a %d: %s', async (status, outcome) => {
      server.answer = (response, socket) => {
        response.writeHead(status, { 'content-length': '1000' }).write('half');
        response.flushHeaders();
        setImmediate(() => socket.end());
      };
      expect(await sendOne()).toMatchObject({ outcome, status });
    });

    it.each([
      ['before a byte of its answer', ''],
      ['in its status line', 'HTTP/1.1 2'],
      ['behind an interim answer', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ])('closes %s: a reset', async (_, start) => {
      server.answer = (_response, socket) => socket.end(start);
      expect(await sendOne()).toEqual({
        outcome: 'retry',
        reason: 'connection closed before an answer',
        reset: true,
      });
      expect(server.requests).toHaveLength(1);
    });

    it('speaks another protocol: tried again', async () => {
      server.answer = (_, socket) => socket.end('220 smtp.example ESMTP\r\n');
      expect(await sendOne()).toEqual({ outcome: 'retry', reason: 'the answer is not HTTP' });
    });

    it('hangs on a shared host: calls of other destinations are not queued behind it', async () => {
      const patient = createTestConnectors({ egressAllow: ['127.0.0.0/8'], timeoutMs: 30_000 });
      const connector = connectorOf(patient, 'webhook');
      const controller = new AbortController();
      server.answer = (response) => {
        if (!server.requests.at(-1)?.body.includes('"user-7"')) response.writeHead(204).end();
      };
      const hanging = Array.from({ length: 16 }, () => destinationWith()).flatMap((hung) =>
        Array.from({ length: 16 }, () => connector.deliver(hung, [delivery(7)], controller)),
      );
      await expect.poll(() => server.requests.length).toBe(256);
      const [result] = await connector.deliver(destinationWith(), [delivery()], unhurried);
      expect(result).toEqual({ outcome: 'delivered', status: 204 });
      controller.abort();
      const outcomes = (await Promise.all(hanging)).flat().map(({ outcome }) => outcome);
      expect(outcomes).toEqual(Array(256).fill('retry'));
      await patient.close();
    });

    it('gets new settings: the next call has a new connection, and the old one ends', async () => {
      const connector = connectorOf(connectors, 'webhook');
      const before = destinationWith();
      await connector.deliver(before, [delivery()], unhurried);
      await connector.deliver({ ...before, version: 2 }, [delivery()], unhurried);
      expect(server.connections.taken).toBe(2);
      await expect.poll(() => server.connections.open).toBe(1);
    });
  });
});
