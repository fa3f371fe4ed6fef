import { createServer } from 'node:net';
import { NO_METRICS } from '@tributary/core';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { parseRanges } from '../egress/address-ranges.ts';
import { createEgressGuard } from '../egress/guard.ts';
import { createNameLookups } from '../egress/name-lookups.ts';
import { openTopicClient } from './client.ts';
import { readSettings } from './settings.ts';

const uncaught: unknown[] = [];
const note = (error: unknown) => uncaught.push(error);

describe('a broker that answers with nonsense', () => {
  afterEach(() => {
    process.off('uncaughtException', note);
    uncaught.length = 0;
  });

  it.each([0, 1, 3, -1, 0x7fffffff])(
    'a frame of length %d costs its connection, not the process',
    async (length) => {
      process.prependListener('uncaughtException', note);
      const broker = createServer((socket) => {
        socket.on('error', () => {});
        socket.on('data', () => {
          const frame = Buffer.alloc(64);
          frame.writeInt32BE(length);
          socket.write(frame);
        });
      });
      await new Promise<void>((resolve) => broker.listen(0, '127.0.0.1', resolve));
      onTestFinished(() => void broker.close());
      const address = broker.address();
      if (address === null || typeof address === 'string') throw new Error('not listening');
      const egress = createEgressGuard({
        allowed: parseRanges(['127.0.0.0/8']),
        resolve: createNameLookups(),
        metrics: NO_METRICS,
      });
      const settings = readSettings({ brokers: [`127.0.0.1:${address.port}`], topic: 't', tls: false });
      if (settings === undefined) throw new Error('the settings are not valid');
      const client = openTopicClient(egress, settings, { timeoutMs: 500, workspaceId: 'w' });
      await expect(client.send('t', [{ value: 'v' }])).rejects.toThrow();
      await client.close().catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(uncaught).toEqual([]);
    },
  );
});
