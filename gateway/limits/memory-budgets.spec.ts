import { connect, type Socket } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { errorsPlugin } from '../errors/error-handler.ts';
import { createServer } from '../server/create-server.ts';
import { responseMemoryPlugin } from './memory-budgets.ts';

const MIB = 1024 * 1024;
const NO_LOGGER = { trace() {}, debug() {}, info() {}, warn() {}, error() {}, fatal() {} };

async function serve(answers: number) {
  const app = createServer();
  await app.register(errorsPlugin, { logger: NO_LOGGER as never });
  await app.register(responseMemoryPlugin, { memory: { answers } });
  app.get('/large', async () => 'x'.repeat(24 * MIB));
  const port = Number(new URL(await app.listen({ host: '127.0.0.1', port: 0 })).port);
  const sockets: Socket[] = [];
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await app.close();
  });
  /** Requests the large answer and reads only its beginning. */
  const ask = async (localAddress: string) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    sockets.push(socket);
    let isOver = false;
    socket.on('error', () => {});
    socket.on('close', () => {
      isOver = true;
    });
    socket.write('GET /large HTTP/1.1\r\nhost: x\r\n\r\n');
    const first = await new Promise<Buffer>((resolve) => socket.once('data', resolve));
    socket.pause();
    return { status: first.toString('latin1', 9, 12), isOver: () => isOver, readOn: () => socket.resume() };
  };
  return { port, ask };
}

it('responses to clients that do not read were buffered without a bound: a caller has a share, and others get theirs', async () => {
  const { ask } = await serve(100 * MIB);
  const slow: Awaited<ReturnType<typeof ask>>[] = [];
  for (let n = 0; n < 5; n++) slow.push(await ask('127.0.0.3'));
  expect(slow.map(({ status }) => status)).toEqual(['200', '200', '200', '503', '503']);
  const others = [await ask('127.0.0.4'), await ask('127.0.0.5')];
  expect(others.map(({ status }) => status)).toEqual(['200', '200']);
  slow[0]?.readOn();
  await expect.poll(() => slow[0]?.isOver()).toBe(true);
  expect(slow.slice(1, 3).map(({ isOver }) => isOver())).toEqual([false, false]);
});
