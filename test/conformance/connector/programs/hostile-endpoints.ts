import { createServer, type Server, type Socket } from 'node:net';
import type { JsonObject } from '@tributary/core';

/** A hostile server: its behaviour on a connection, and the settings that point a destination at it. */
export interface HostileEndpoint {
  readonly type: string;
  readonly name: string;
  /** The reason that the connection test reports at the end. */
  readonly reason: RegExp;
  serve(socket: Socket): void;
  settings(port: number): JsonObject;
}

export async function startServer(serve: (socket: Socket) => void) {
  const open = new Set<Socket>();
  const server: Server = createServer((socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket));
    socket.on('error', () => undefined);
    serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not listening');
  return {
    port: address.port,
    open,
    close: () =>
      new Promise<void>((resolve) => {
        for (const socket of open) socket.destroy();
        server.close(() => resolve());
      }),
  };
}

/** Writes until the connection is closed, at the reader's pace. */
function pour(socket: Socket, chunk: Buffer | string): void {
  const more = () => {
    while (!socket.destroyed && socket.write(chunk));
  };
  socket.on('drain', more);
  more();
}

const once = (answer: (socket: Socket, first: Buffer) => void) => (socket: Socket) =>
  void socket.once('data', (first) => answer(socket, first));

// Kafka -------------------------------------------------------------------------------------------------------------

const int = (bytes: 2 | 4 | 8, value: number) => {
  const buffer = Buffer.alloc(bytes);
  if (bytes === 8) buffer.writeBigInt64BE(BigInt(value));
  else buffer.writeIntBE(value, 0, bytes);
  return buffer;
};
const text = (value: string) => Buffer.concat([int(2, value.length), Buffer.from(value)]);
const list = (...items: readonly Buffer[]) => Buffer.concat([int(4, items.length), ...items]);
const sized = (bytes: Buffer) => Buffer.concat([int(4, bytes.length), bytes]);

const API = { metadata: 3, handshake: 17, versions: 18, authenticate: 36 };
const VERSIONS = list(
  ...[
    [0, 7],
    [3, 5],
    [17, 1],
    [18, 0],
    [36, 0],
  ].map(([key = 0, max = 0]) => Buffer.concat([int(2, key), int(2, 0), int(2, max)])),
);

type KafkaAnswers = Partial<Record<keyof typeof API, (request: Buffer) => Buffer>>;

/** A broker with correct answers, except those overridden. */
function broker(answers: KafkaAnswers, mechanism = 'SCRAM-SHA-512') {
  const usual: KafkaAnswers = {
    versions: () => Buffer.concat([int(2, 0), VERSIONS]),
    handshake: () => Buffer.concat([int(2, 0), list(text(mechanism))]),
  };
  return (socket: Socket) => {
    let came = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      came = Buffer.concat([came, chunk]);
      while (came.length >= 4 && came.length >= 4 + came.readInt32BE(0)) {
        const request = came.subarray(4, 4 + came.readInt32BE(0));
        came = came.subarray(4 + request.length);
        const name = Object.entries(API).find(([, key]) => key === request.readInt16BE(0))?.[0];
        const all: KafkaAnswers = { ...usual, ...answers };
        const answer = all[name as keyof typeof API]?.(request);
        if (answer !== undefined) socket.write(sized(Buffer.concat([request.subarray(4, 8), answer])));
      }
    });
  };
}

/** Requests that many iterations, with the client's nonce. */
const scramFirst = (iterations: string) => (request: Buffer) => {
  const nonce = /r=([^,]+)$/.exec(request.toString('latin1'))?.[1] ?? '';
  const first = Buffer.from(`r=${nonce}more,s=c2FsdHNhbHRzYWx0,i=${iterations}`);
  return Buffer.concat([int(2, 0), int(2, -1), sized(first)]);
};

const manyBrokers = (count: number) =>
  Buffer.concat([
    int(4, 0),
    list(
      ...Array.from({ length: count }, (_, id) =>
        Buffer.concat([int(4, id), text('127.0.0.1'), int(4, 9), int(2, -1)]),
      ),
    ),
    int(2, -1),
    int(4, 0),
    list(),
  ]);

const MOST_BROKERS = manyBrokers(40_000);

const kafka = (
  name: string,
  reason: RegExp,
  serve: (socket: Socket) => void,
  settings: JsonObject = {},
): HostileEndpoint => ({
  type: 'kafka',
  name,
  reason,
  serve,
  settings: (port) => ({ brokers: [`127.0.0.1:${port}`], topic: 't', tls: false, ...settings }),
});
const USER = { username: 'u', password: 'p' };
const [TOO_LONG, NOT_UNDERSTOOD, REFUSED] = [/too long/, /cannot be understood/, /not authenticated/];

const KAFKA: readonly HostileEndpoint[] = [
  kafka('asks for 90 million iterations', REFUSED, broker({ authenticate: scramFirst('90000000') }), USER),
  kafka(
    'asks for 100,001 iterations',
    REFUSED,
    broker({ authenticate: scramFirst('100001') }, 'SCRAM-SHA-256'),
    { ...USER, sasl_mechanism: 'scram-sha-256' },
  ),
  kafka('asks for one iteration', REFUSED, broker({ authenticate: scramFirst('1') }), USER),
  kafka(
    'announces a list of 30 million versions',
    NOT_UNDERSTOOD,
    broker({ versions: () => Buffer.concat([int(2, 0), int(4, 30_000_000)]) }),
  ),
  kafka('names 9,000 brokers', TOO_LONG, broker({ metadata: () => manyBrokers(9_000) })),
  kafka('names 40,000 brokers', TOO_LONG, broker({ metadata: () => MOST_BROKERS })),
  kafka(
    'announces an answer of 2 GB',
    TOO_LONG,
    once((socket) => pour(socket, Buffer.alloc(65_536, 0x7f))),
  ),
  kafka(
    'answers what it was not asked',
    NOT_UNDERSTOOD,
    once((socket) => pour(socket, Buffer.concat(Array(5_000).fill(sized(int(8, -1)))))),
  ),
  kafka(
    'sends answers shorter than they say',
    NOT_UNDERSTOOD,
    broker({ handshake: () => Buffer.concat([int(2, 0), int(4, 3), int(2, 9)]) }),
    USER,
  ),
  kafka(
    'drips a byte at a time',
    /timed out/,
    once((socket) => {
      socket.write(int(4, 60_000));
      const drip = setInterval(() => socket.write('x'), 20);
      socket.on('close', () => clearInterval(drip));
    }),
  ),
];

// PostgreSQL --------------------------------------------------------------------------------------------------------

const message = (type: string, ...parts: readonly (string | Buffer)[]) => {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part as string)));
  return Buffer.concat([Buffer.from(type), int(4, 4 + body.length), body]);
};
const asksScram = (iterations: string) => (socket: Socket) => {
  let asked = 0;
  socket.on('data', (data: Buffer) => {
    asked += 1;
    const nonce = /r=([^,]+)$/.exec(data.toString('latin1'))?.[1] ?? '';
    if (asked === 1) socket.write(message('R', int(4, 10), 'SCRAM-SHA-256\0\0'));
    else socket.write(message('R', int(4, 11), `r=${nonce}more,s=c2FsdHNhbHQ=,i=${iterations}`));
  });
};
const postgres = (name: string, reason: RegExp, serve: (socket: Socket) => void): HostileEndpoint => ({
  type: 'postgres',
  name,
  reason,
  serve,
  settings: (port) => ({ host: '127.0.0.1', port, tls: false, database: 'd', username: 'u', password: 'p' }),
});
const POSTGRES: readonly HostileEndpoint[] = [
  postgres('asks for 70 million iterations', REFUSED, asksScram('70000000')),
  postgres('asks for 4,095 iterations', REFUSED, asksScram('4095')),
  postgres(
    'asks for the password in clear',
    /in clear/,
    once((socket) => socket.write(message('R', int(4, 3)))),
  ),
  postgres(
    'asks in a way that nobody knows',
    NOT_UNDERSTOOD,
    once((socket) => socket.write(message('R', int(4, 4_711)))),
  ),
  postgres(
    'sends an error without an end',
    NOT_UNDERSTOOD,
    once((socket) => socket.write(message('E', 'SERROR'))),
  ),
  postgres(
    'sends a notice of fields without an end',
    NOT_UNDERSTOOD,
    once((socket) => socket.write(message('N', 'Mx\0', 'Dy'))),
  ),
  postgres(
    'describes 32,767 columns',
    NOT_UNDERSTOOD,
    once((socket) => socket.write(message('T', int(2, 0x7fff)))),
  ),
  postgres(
    'sends a row of 2 GB',
    TOO_LONG,
    once((socket) => {
      socket.write(Buffer.concat([Buffer.from('D'), int(4, 0x7fffffff)]));
      pour(socket, Buffer.alloc(65_536));
    }),
  ),
  postgres(
    'sends notices without end',
    TOO_LONG,
    once((socket) => pour(socket, message('N', `M${'x'.repeat(9_000)}\0`, '\0'))),
  ),
  postgres(
    'names no mechanism',
    NOT_UNDERSTOOD,
    once((socket) => socket.write(message('R', int(4, 10), 'SCRAM-SHA-256'))),
  ),
];

// Redis -------------------------------------------------------------------------------------------------------------

const redis = (name: string, reason: RegExp, bytes: Buffer | string, isEndless = false): HostileEndpoint => ({
  type: 'redis',
  name,
  reason,
  serve: once((socket) => (isEndless ? pour(socket, bytes) : void socket.write(bytes))),
  settings: (port) => ({ host: '127.0.0.1', port, tls: false, stream: 's', password: 'p' }),
});
const REDIS: readonly HostileEndpoint[] = [
  redis('nests lists 400,000 times', NOT_UNDERSTOOD, '*1\r\n'.repeat(400_000)),
  redis('announces a list of 4 billion', NOT_UNDERSTOOD, '*4294967296\r\n'),
  redis('announces a text of 500 MB', NOT_UNDERSTOOD, '$500000000\r\n'),
  redis('sends a status without an end', TOO_LONG, Buffer.alloc(65_536, '+'), true),
  redis('sends replies nobody waits for', TOO_LONG, '+OK\r\n'.repeat(4_000), true),
  redis('pushes', NOT_UNDERSTOOD, '>2\r\n$7\r\nmessage\r\n$1\r\nx\r\n'),
  redis('moves the slot without end', /cluster/, '-MOVED 1 127.0.0.1:1\r\n'.repeat(9)),
];

// HTTP --------------------------------------------------------------------------------------------------------------

const CHUNKED = 'HTTP/1.1 500 no\r\ntransfer-encoding: chunked\r\n\r\n';
const HTTP_SERVERS: readonly [name: string, reason: RegExp, serve: (socket: Socket) => void][] = [
  [
    'sends interim answers without end',
    TOO_LONG,
    once((socket) => pour(socket, 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(500))),
  ],
  [
    'sends headers without end',
    /answered 500|network error|too long/,
    once((socket) => {
      socket.write('HTTP/1.1 500 no\r\n');
      pour(socket, 'x-header: value\r\n'.repeat(500));
    }),
  ],
  [
    'extends a chunk without end',
    /answered 500|too long|not HTTP/,
    once((socket) => {
      socket.write(`${CHUNKED}1;`);
      pour(socket, 'extension=value;'.repeat(500));
    }),
  ],
  [
    'drips a body',
    /answered 500|timed out/,
    once((socket) => {
      socket.write(CHUNKED);
      const drip = setInterval(() => socket.write('1\r\nx\r\n'), 20);
      socket.on('close', () => clearInterval(drip));
    }),
  ],
  [
    'sends a body without end',
    /answered 500/,
    once((socket) => {
      socket.write('HTTP/1.1 500 no\r\ncontent-encoding: gzip\r\n\r\n');
      pour(socket, Buffer.alloc(65_536, 0x1f));
    }),
  ],
  [
    'sends a megabyte for a reason',
    /answered 403/,
    once((socket) => socket.end(`HTTP/1.1 403 ${'x'.repeat(9_000)}\r\n\r\n${'<Code>'.repeat(200_000)}`)),
  ],
];
const XML_BOMB = `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "${'A'.repeat(99)}">${'bcdefgh'
  .split('')
  .map((name, at) => `<!ENTITY ${name} "${`&${'abcdefg'[at]};`.repeat(99)}">`)
  .join('')}]><Error><Code>&h;</Code></Error>`;
const answers = (status: number, body: string) =>
  once((socket) => socket.end(`HTTP/1.1 ${status} x\r\ncontent-length: ${body.length}\r\n\r\n${body}`));

const http = (
  type: string,
  settings: (url: string) => JsonObject,
  more: typeof HTTP_SERVERS,
): HostileEndpoint[] =>
  [...HTTP_SERVERS, ...more].map(([name, reason, serve]) => ({
    type,
    name,
    reason,
    serve,
    settings: (port) => settings(`http://127.0.0.1:${port}`),
  }));

export const HOSTILE_ENDPOINTS: readonly HostileEndpoint[] = [
  ...KAFKA,
  ...POSTGRES,
  ...REDIS,
  ...http('webhook', (url) => ({ url }), []),
  ...http('elasticsearch', (url) => ({ url, index: 'i' }), [
    ['nests its answer without end', /not whole/, answers(200, '['.repeat(3_000_000))],
    ['nests as deep as it may', /not whole/, answers(200, '['.repeat(60_000))],
  ]),
  ...http(
    's3',
    (endpoint) => ({
      endpoint,
      path_style: true,
      bucket: 'bucket',
      access_key_id: 'a',
      secret_access_key: 's',
    }),
    [
      ['defines entities that grow', /answered 400/, answers(400, XML_BOMB)],
      ['nests its error', /answered 400/, answers(400, '<Error>'.repeat(200_000))],
    ],
  ),
];

/** Servers that demand as much work as the client accepts. */
export const COSTLY_ENDPOINTS: readonly HostileEndpoint[] = [
  kafka('asks for 100,000 iterations', REFUSED, broker({ authenticate: scramFirst('100000') }), USER),
  postgres('asks for 100,000 iterations', REFUSED, asksScram('100000')),
];
