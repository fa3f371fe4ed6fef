import type { AddressInfo } from 'node:net';
import Fastify from 'fastify';

// The baseline: a bare Fastify that echoes the body.
const app = Fastify({ logger: false, bodyLimit: 8 * 1024 * 1024 });
app.post('/', async (request) => request.body);
await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(
  `${JSON.stringify({ url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/` })}\n`,
);
