import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { gunzipSync } from 'node:zlib';
import type { JsonObject } from '@tributary/core';
import { afterEach, expect, it } from 'vitest';
import { onLoopback } from '../../helpers/on-loopback.ts';
import { connectorOf, createTestConnectors, deliveries, destination, unhurried } from './suite/harness.ts';
import { answerWith, startRecordingServer } from './suite/recording-server.ts';
import { WEBHOOK_SECRET } from './webhook/harness.ts';

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** Sends to a destination of a type, and returns the failed deliveries with their results. */
async function send(type: string, settings: JsonObject, count: number) {
  const connectors = createTestConnectors({ egressAllow: ['127.0.0.0/8'] });
  ends.push(() => connectors.close());
  const results = await connectorOf(connectors, type).deliver(
    destination(settings),
    deliveries(count),
    unhurried,
  );
  return results.flatMap((result, at) => (result.outcome === 'delivered' ? [] : [{ at, ...result }]));
}

/** An HTTP destination that answers by the body. */
async function httpDestination(statusOf: (body: Buffer) => number) {
  const server = await startRecordingServer();
  ends.push(() => server.close());
  server.answer = (response, socket) => {
    const { body = '' } = server.requests.at(-1) ?? {};
    answerWith(statusOf(Buffer.from(body, 'latin1')))(response, socket);
  };
  return server;
}

it('an event at which a webhook answers 500 delayed its whole batch', async () => {
  const server = await httpDestination((body) => (body.includes('"user-17"') ? 500 : 204));
  const settings = { url: server.url, secret: WEBHOOK_SECRET, batch_size: 60 };
  expect(await send('webhook', settings, 60)).toMatchObject([{ at: 17, outcome: 'retry', status: 500 }]);
  expect(server.requests.length).toBeLessThanOrEqual(13);
});

it('a webhook that answers 503 to a batch is not asked on', async () => {
  const server = await httpDestination(() => 503);
  const settings = { url: server.url, secret: WEBHOOK_SECRET, batch_size: 60 };
  expect(await send('webhook', settings, 60)).toHaveLength(60);
  expect(server.requests).toHaveLength(1);
});

it('an entry that a proxy before Redis refuses took its whole batch with it', async () => {
  const port = await redisDestination(({ text, name }) =>
    name === 'eval' && text.includes('"user-5"') ? '-ERR max request size exceeded' : ':1',
  );
  const settings = { host: '127.0.0.1', port, tls: false, database: 0, stream: 's', remember_hours: 25 };
  const refused = { outcome: 'dead', reason: 'the server refused the command' };
  expect(await send('redis', settings, 20)).toEqual([{ at: 5, ...refused }]);
});

it('a Redis that refuses the script itself is asked once more, without entries', async () => {
  let asked = 0;
  const port = await redisDestination(({ name }) => {
    if (name !== 'eval') return ':1';
    asked += 1;
    return "-ERR unknown command 'EVAL'";
  });
  const settings = { host: '127.0.0.1', port, tls: false, database: 0, stream: 's', remember_hours: 25 };
  expect(await send('redis', settings, 20)).toHaveLength(20);
  expect(asked).toBe(2);
});

/** A server that answers each command by its name and text. */
async function redisDestination(
  reply: (command: { readonly name: string; readonly text: string }) => string,
) {
  const server = createServer((socket) => {
    let came = '';
    socket.setEncoding('latin1').on('error', () => undefined);
    socket.on('data', (chunk) => {
      came += chunk;
      for (let end = commandEnd(came); end !== undefined; end = commandEnd(came)) {
        const text = came.slice(0, end);
        came = came.slice(end);
        const name = text.split('\r\n')[2]?.toLowerCase() ?? '';
        socket.write(`${name === 'eval' || name === 'xlen' ? reply({ name, text }) : '+OK'}\r\n`);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ends.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** The end of the first complete command: `*<parts>`, then `$<length>` and the text of each. */
function commandEnd(came: string): number | undefined {
  const [head, parts] = /^\*(\d+)\r\n/.exec(came) ?? [];
  let at = head?.length ?? 0;
  for (let left = Number(parts ?? 0); left > 0; left--) {
    const [line, length] = /^\$(\d+)\r\n/.exec(came.slice(at, at + 20)) ?? [];
    if (line === undefined) return undefined;
    at += line.length + Number(length) + 2;
  }
  return at > 0 && at <= came.length ? at : undefined;
}

it('an object that is too large for a bucket took all of its events with it', async () => {
  const sizes: number[] = [];
  const server = await s3Place((object) => {
    const lines = object.length === 0 ? 0 : gunzipSync(object).toString().trim().split('\n').length;
    sizes.push(lines);
    return lines > 12 ? 413 : 200;
  });
  expect(await send('s3', { ...S3, endpoint: server }, 40)).toEqual([]);
  expect(sizes).toEqual([40, 0, 20, 20, 10, 10, 10, 10]);
});

it('a bucket that refuses an empty object too is not asked on', async () => {
  let asked = 0;
  const server = await s3Place(() => {
    asked += 1;
    return 400;
  });
  expect(await send('s3', { ...S3, endpoint: server }, 40)).toHaveLength(40);
  expect(asked).toBe(2);
});

const S3 = {
  region: 'eu-central-1',
  bucket: 'b-events',
  prefix: 'p',
  path_style: true,
  access_key_id: 'A-KEY-ID',
  secret_access_key: 'a-secret-key',
  batch_size: 200,
  batch_seconds: 1,
};

async function s3Place(statusOf: (object: Buffer) => number): Promise<string> {
  const server = createHttpServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    response.writeHead(statusOf(Buffer.concat(chunks))).end();
  });
  const { url, close } = await onLoopback(server);
  ends.push(close);
  return url;
}
