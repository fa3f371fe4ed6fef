// Runs alone in the long form: it checks memory.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { residentMiB } from '../../bench/usage.ts';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { WORST_CONTRACTS } from './attacks.ts';

const CONTRACTS = 100;
/** Additional memory of the gateway and its stages, MiB. */
const MOST_MEMORY = 450;

describe('The worst contracts', () => {
  let tributary: Tributary;
  beforeAll(async () => {
    // V8 keeps garbage as long as it may, which is longer on a machine with more memory.
    tributary = await startTributary({ env: { NODE_OPTIONS: '--max-old-space-size=192' } });
  });
  afterAll(() => tributary.remove());

  it('of a workspace take bounded memory, and each of its events is evaluated', async () => {
    const { owner, producer, pid } = tributary;
    const before = residentMiB(pid);
    const names = Array.from({ length: CONTRACTS }, (_, n) => `Worst ${n}`);
    for (const [n, name] of names.entries()) {
      const schema_definition = WORST_CONTRACTS[n % WORST_CONTRACTS.length]?.(n) ?? {};
      const contract = { name, event_type: 'track', event_name: name, schema_definition };
      await owner.post('./event-contracts', { ...contract, enforcement_mode: 'block' });
    }
    for (const event of [...names, ...names]) {
      const batch = Array.from({ length: 5 }, (_, at) => ({
        type: 'track',
        event,
        user_id: `u${at}`,
        properties: { a: 'ab'.repeat(500 + at), [`p${at}zzx9`]: 1 },
      }));
      await producer.post('./events/batch?check=contract', { batch });
      await producer.post('./events/batch', { batch });
    }
    const last = await producer.post<{ message_id: string }>('./events/track', {
      event: 'Last',
      user_id: 'u',
    });
    await eventually(
      () => owner.call('GET', `./events/${last.message_id}`),
      ({ status, body }) => status === 200 && 'accepted' in (body as object),
    );
    const more = residentMiB(pid) - before;
    console.log(`${before} MiB before, ${more} more with ${CONTRACTS} of the worst contracts in use`);
    expect(more).toBeLessThan(MOST_MEMORY);
  });
});
