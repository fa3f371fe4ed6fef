import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { ServerProcess } from '../../helpers/server-process.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { forwardTo, startWebhook, type Webhook } from '../../helpers/webhook.ts';

/**
 * The conformance suite of the event log checks the same for a stage in the default run, without a server.
 */
const IS_LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;

/** Ends the stages at certain events. */
const DEADLY = new URL('./deadly-events.ts', import.meta.url).href;
const ENV = { NODE_OPTIONS: `--import=${DEADLY}`, TRIBUTARY_STAGES_HEAP: '128MiB' };

const INNOCENT = 24;
/** Two of each. The table left by a killed process may be older than the event by a tenth of a second. */
const MOST_DEATHS = 5;
/**
 * What a process writes as it crashes. The next one writes what it found of the crash, and a quarantined event names its
 * cause, `the stages ended with code 9`: neither is a crash.
 */
const CRASHED = /the stages ended[;,]|FATAL ERROR/;

/**
 * An event that ends the whole process does so twice, under a supervisor that restarts it; then it is
 * quarantined.
 */
describe.runIf(IS_LONG)('Deadly events', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  beforeAll(async () => {
    tributary = await startTributary({ env: ENV });
    webhook = await startWebhook();
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
  });

  it('ended it at every start: each twice now, and all others are delivered', {
    timeout: 400_000,
  }, async () => {
    const { owner, producer, folder } = tributary;
    await forwardTo(owner, webhook.url);
    const named = (event: string, n: number) => ({
      type: 'track',
      event,
      user_id: `u${n}`,
      properties: { n },
    });
    await producer.post('./events/batch', {
      batch: [
        ...Array.from({ length: INNOCENT }, (_, n) => named('Innocent', n)),
        { ...named('Deadly Route', 3), message_id: 'Deadly Route' },
        named('Deadly Validate', 4),
        named('Innocent', INNOCENT),
      ],
    });
    const delivered = () => new Set(webhook.deliveries().map(({ event }) => Object(event.properties).n));
    const listed = async () => {
      const list = new ServerProcess(['redrive', '--list'], { ...tributary.environment, NODE_OPTIONS: '' });
      await list.ended();
      return list.output;
    };
    let deaths = 0;
    /** The process may end before it is ready. */
    const restarted = async (): Promise<Tributary> => {
      for (;;) {
        try {
          return await startTributary({ env: ENV, folder });
        } catch (error) {
          deaths += 1;
          if (deaths > MOST_DEATHS) throw error;
        }
      }
    };
    while (
      delivered().size <= INNOCENT ||
      !/validate +1\b/.test(await listed()) ||
      !/route +1\b/.test(await listed())
    ) {
      if (!CRASHED.test(tributary.log())) {
        await sleep(200);
        continue;
      }
      deaths += 1;
      expect(deaths).toBeLessThanOrEqual(MOST_DEATHS);
      await tributary.stop();
      tributary = await restarted();
    }
    expect(deaths).toBeGreaterThanOrEqual(2);
    expect(await listed()).toContain('it crashed the process twice');
    const quarantined = await eventually(
      () => tributary.metrics(),
      (text) => text.includes('tributary_stage_quarantined_total{'),
    );
    expect(quarantined).toMatch(/tributary_stage_quarantined_total\{stage="(route|validate)"\} 1/);
    // The process stays up, with no trace of the events.
    expect(tributary.log()).not.toMatch(CRASHED);
  });
});
