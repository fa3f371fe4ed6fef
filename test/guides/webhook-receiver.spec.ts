import { type ChildProcess, spawn } from 'node:child_process';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../engines/engine-process.ts';
import { inherited } from '../helpers/child.ts';
import { eventually } from '../helpers/client.ts';
import { parseSteps, readGuide } from './blocks.ts';

const SECRET = `whsec_${Buffer.from('a secret of the tests, 32 bytes.').toString('base64')}`;

describe('the receiver of the guide to webhooks', () => {
  let receiver: ChildProcess;
  let url: string;
  let received = '';

  beforeAll(async () => {
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const steps = parseSteps(readGuide('webhooks').replaceAll('9001', String(port)));
    const file = steps.find((step) => step.does === 'save' && step.file === 'try/receiver.mjs');
    receiver = spawn(
      process.execPath,
      ['--input-type=module', '--eval', file?.does === 'save' ? file.text : ''],
      // Node resolves packages from the working folder: the tests have the Standard Webhooks package.
      { cwd: import.meta.dirname, env: { ...inherited(), SECRET }, stdio: ['ignore', 'pipe', 'inherit'] },
    );
    receiver.stdout?.on('data', (chunk: Buffer) => {
      received += chunk.toString('utf8');
    });
    await eventually(
      () =>
        fetch(url).then(
          ({ status }) => status,
          () => 0,
        ),
      (status) => status === 400, // it is up, and rejects a call without a signature
    );
  });
  afterAll(() => {
    receiver.kill();
  });

  it('accepts each delivery once, however often it arrives, and none that is signed otherwise', async () => {
    const body = JSON.stringify({ id: 'd-1', type: 'event', event: { event: 'Refunded', user_id: 'ada' } });
    const batch = JSON.stringify({ type: 'batch', deliveries: [JSON.parse(body)] });
    const test = JSON.stringify({ id: 't-1', type: 'test' });
    const send = async (text: string, signedAs = text) => {
      const at = new Date();
      const headers = {
        'webhook-id': 'm-1',
        'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
        'webhook-signature': new Webhook(SECRET).sign('m-1', at, signedAs),
      };
      return (await fetch(url, { method: 'POST', body: text, headers })).status;
    };
    expect(await send(test)).toBe(204);
    expect(await send(body)).toBe(204);
    expect(await send(body)).toBe(204);
    expect(await send(batch)).toBe(204);
    expect(await send(body, batch)).toBe(400);
    expect(
      await eventually(
        () => received,
        (text) => text !== '',
      ),
    ).toBe('Refunded by ada\n');
  });
});
