import { statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

/** Of the data folder, or of the broker, which is on this machine as well. */
const freeMib = () => {
  const { bavail, bsize } = statfsSync(tmpdir());
  return Math.floor((bavail * bsize) / 2 ** 20);
};

describe('a disk with less than 20 % of its reserve', () => {
  let tributary: Tributary;
  beforeAll(async () => {
    tributary = await startTributary({ env: { TRIBUTARY_DISK_RESERVE: `${7 * freeMib()}MiB` } });
  });
  afterAll(() => tributary?.remove());

  it('was filled to its last byte, a broker’s above all: events are refused with the reason, and things can be removed', async () => {
    const refused = await eventually(
      () => tributary.producer.call('POST', './events/track', { event: 'E', user_id: 'u' }),
      ({ status }) => status === 503,
      20_000,
    );
    expect(refused.body).toMatchObject({ error: 'unavailable', reason: 'disk_full' });
    const { id } = await tributary.owner.post<{ id: string }>('./event-keys', {
      name: 'key',
      environment: 'production',
    });
    await tributary.owner.ok('DELETE', `./event-keys/${id}`);
    const readiness = await (await fetch(`${tributary.adminUrl}/readyz`)).json();
    expect(readiness).toMatchObject({ status: 'ready' });
    expect(JSON.stringify(readiness)).toContain('events are answered with 503');
    expect(await tributary.metrics()).toMatch(
      /^tributary_(broker_disk|data_folder)_reserve_bytes(\{.*\})? \d/m,
    );
  });
});
