import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

// A minimal, fast webhook: it reads the request and answers 204.
const server = createServer((request, response) => {
  request.resume().on('end', () => response.writeHead(204).end());
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${port}/` })}\n`);
});
process.on('SIGTERM', () => process.exit(0));
