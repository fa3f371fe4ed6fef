import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inherited } from '../helpers/child-environment.ts';
import { eventually } from '../helpers/client.ts';
import { startEmbedded } from '../helpers/embedded.ts';
import { freePort } from '../helpers/free-port.ts';
import type { Tributary } from '../helpers/running-tributary.ts';
import { type Block, blocksOf } from './blocks.ts';
import { Shell } from './shell.ts';

/* Runs the examples of docs/guides/webhooks.md. */

let tributary: Tributary;
let shell: Shell;
let receiver: ChildProcess | undefined;
let received = '';
let port: number;
let blocks: readonly Block[];

beforeAll(async () => {
  tributary = await startEmbedded(mkdtempSync(join(tmpdir(), 'tributary-')), {});
  port = await freePort();
  blocks = blocksOf('webhooks', {
    'http://127.0.0.1:8080': tributary.url,
    'http://127.0.0.1:9000': `http://127.0.0.1:${port}`,
  });
  shell = new Shell({ TRIBUTARY_DATA_DIR: tributary.folder });
});

afterAll(async () => {
  receiver?.kill();
  await shell.close();
  await tributary.remove();
});

const codeOf = (wanted: string, at = 0) =>
  blocks.filter(({ language }) => language === wanted)[at]?.text ?? '';

/** Node resolves packages from the working folder: the tests have the Standard Webhooks package. */
function startReceiver(secret: string): ChildProcess {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', codeOf('js')], {
    cwd: import.meta.dirname,
    env: { ...inherited(), SECRET: secret, PORT: String(port) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  child.stdout?.on('data', (chunk: Buffer) => {
    received += chunk.toString('utf8');
  });
  return child;
}

describe('the guide to webhooks', () => {
  it('has the blocks that are run here, and no others', () => {
    expect(blocks.map(({ language }) => language)).toEqual(['js', 'sh', 'sh', 'text', 'sh', 'sh']);
  });

  it('ends with an event at the receiver, and nothing that is dead', async () => {
    const [secret = ''] = await shell.run(codeOf('sh'));
    expect(secret).toMatch(/^whsec_/);
    receiver = startReceiver(secret);
    await eventually(
      () =>
        fetch(`http://127.0.0.1:${port}`).then(
          ({ status }) => status,
          () => 0,
        ),
      (status) => status === 400, // it is up, and rejects a call without a signature
    );
    const [enabled, answer = ''] = await shell.run(codeOf('sh', 1));
    expect(enabled).toBe('true');
    expect(JSON.parse(answer)).toEqual({ message_id: 'order-1', status: 'received' });
    expect(
      await eventually(
        () => received,
        (text) => text !== '',
      ),
    ).toBe(codeOf('text'));
    expect(await shell.run(codeOf('sh', 2))).toEqual(['0', '0']);
  });

  it('shows a receiver that takes each delivery once, however often it comes', async () => {
    const { Webhook } = await import('standardwebhooks');
    const [secret = ''] = await shell.run('echo $destination | field settings.secret');
    const before = received;
    const body = JSON.stringify({ id: 'd-1', type: 'event', event: { event: 'Refunded', user_id: 'ada' } });
    const batch = JSON.stringify({ type: 'batch', deliveries: [JSON.parse(body)] });
    const send = (text: string, signedAs = text) => {
      const at = new Date();
      return fetch(`http://127.0.0.1:${port}`, {
        method: 'POST',
        body: text,
        headers: {
          'webhook-id': 'm-1',
          'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
          'webhook-signature': new Webhook(secret).sign('m-1', at, signedAs),
        },
      }).then(({ status }) => status);
    };
    expect(await send(body)).toBe(204);
    expect(await send(body)).toBe(204);
    expect(await send(batch)).toBe(204);
    expect(await send(body, batch)).toBe(400);
    expect(received.slice(before.length)).toBe('Refunded by ada\n');
  });

  it('shows a secret that is changed while the old one still signs', async () => {
    const [until = ''] = await shell.run(codeOf('sh', 3));
    expect(Date.parse(until)).toBeGreaterThan(Date.now() + 23 * 3_600_000);
  });
});
