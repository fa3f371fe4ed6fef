import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { forwardTo, startWebhook, type Webhook } from '../../helpers/webhook.ts';

interface History {
  readonly bucket: string;
  readonly buckets: readonly {
    readonly delivered: number;
    readonly retried: number;
    readonly dead: number;
    readonly p99_ms: number | null;
  }[];
}

/** The minutes of a destination add up to what was attempted, the current one within seconds. */
describe('The health of a destination over time', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  beforeAll(async () => {
    tributary = await startTributary({ env: { TRIBUTARY_RETRY_SCHEDULE: '1s,2s' } });
    webhook = await startWebhook();
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
  });

  it('has every attempt that ended, by its result, by the minute and by the hour', async () => {
    const { owner, producer } = tributary;
    const id = await forwardTo(owner, webhook.url);
    for (let n = 0; n < 40; n++) {
      await producer.post('./events/track', { event: 'Counted', user_id: `u${n}` });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const sums = async (hours: number) => {
      const { bucket, buckets } = await owner.get<History>(
        `./destinations/${id}/health/history?hours=${hours}`,
      );
      const delivered = buckets.reduce((sum, one) => sum + one.delivered, 0);
      const failed = buckets.reduce((sum, one) => sum + one.retried + one.dead, 0);
      return { bucket, delivered, failed };
    };
    await eventually(
      () => sums(1),
      ({ delivered }) => delivered === 40,
      15_000,
    );
    expect(await sums(1)).toEqual({ bucket: 'minute', delivered: 40, failed: 0 });
    expect(await sums(24)).toEqual({ bucket: 'hour', delivered: 40, failed: 0 });
  }, 200_000);
});
