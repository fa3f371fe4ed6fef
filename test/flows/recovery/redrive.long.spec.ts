import { randomInt, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type CanonicalEvent,
  countedEvent,
  countRecords,
  deadLetterOf,
  type EventLog,
  eventKey,
  HEADER,
  iso,
  type LogEntry,
  NO_LOGGER,
  NO_METRICS,
  Tally,
  TOPIC,
} from '@tributary/core';
import { openEventLog, readConfig } from '@tributary/infra';
import { REDRIVE, readDeadLetters } from '@tributary/processors';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Dice } from '../../chaos/dice.ts';
import { eventually } from '../../helpers/client.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { ServerProcess } from '../../helpers/server-process.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { forwardTo, startWebhook, type Webhook } from '../../helpers/webhook.ts';

/**
 * Entries that a faulty release dead-lettered continue from there once they are redriven, beside a running
 * server.
 */
describe('Redriving what stages gave up', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  let log: EventLog;
  beforeAll(async () => {
    tributary = await startTributary();
    webhook = await startWebhook();
    const config = readConfig(tributary.environment);
    log = await openEventLog(config, { logger: NO_LOGGER, metrics: NO_METRICS, dropExpired: false });
    await forwardTo(tributary.owner, webhook.url);
  });
  afterAll(async () => {
    await log.close();
    await tributary.remove();
    await webhook.close();
  });

  const command = () => new ServerProcess(['redrive'], { ...tributary.environment, LOG_LEVEL: 'warn' });
  /** In this process; the redrive that is killed below has a process of its own. */
  const ran = (...options: readonly string[]) =>
    ranHere(['redrive', ...options], { ...tributary.environment, LOG_LEVEL: 'warn' });

  /** An event as an entry of a topic that the stage reads. */
  function entryOf(topic: string, event: string, offset: number): LogEntry {
    const now = iso(Date.now());
    const canonical: CanonicalEvent = {
      message_id: randomUUID(),
      type: 'track',
      event,
      user_id: `u${offset}`,
      timestamp: now,
      received_at: now,
      environment: 'production',
      workspace_id: tributary.workspaceId,
    };
    return {
      key: eventKey(canonical),
      value: JSON.stringify(canonical),
      headers: { [HEADER.catalogPosition]: '0' },
      position: { topic, partition: 0, offset, index: 0 },
      timestamp: Date.now(),
    };
  }
  /** The record with the count of an accepted event. */
  function countOf(event: string, offset: number): LogEntry {
    const entry = entryOf(TOPIC.funnelCounts, event, offset);
    const counted = countedEvent(JSON.parse(entry.value) as CanonicalEvent);
    const note = { event: counted, rule: '', destination: '', measures: 'received+accepted' };
    return { ...entry, ...countRecords([Tally.of([note])])[0] };
  }
  const messageOf = (entry: LogEntry) => (JSON.parse(entry.value) as CanonicalEvent).message_id;
  const giveUp = (records: readonly (readonly [stage: string, entry: LogEntry])[]) =>
    log.append(
      TOPIC.poison,
      records.map(([stage, entry]) => deadLetterOf(stage, entry, 'no total of\nundefined', iso(Date.now()))),
    );
  /** The progress of the redrives: the sum of their positions. */
  const taken = async () => {
    const partitions = Array.from({ length: log.topics.get(TOPIC.poison)?.partitions ?? 0 }, (_, n) => n);
    const positions = await Promise.all(
      partitions.map((partition) => log.positionOf(REDRIVE, TOPIC.poison, partition)),
    );
    return positions.reduce((sum: number, position) => sum + (position ?? 0), 0);
  };
  const counted = async (name: string) => {
    const rows =
      await tributary.owner.get<readonly { readonly event_name: string; readonly event_count: number }[]>(
        './event-volume',
      );
    return rows.filter((row) => row.event_name === name).reduce((sum, row) => sum + row.event_count, 0);
  };
  const received = (name: string) =>
    webhook
      .deliveries()
      .filter(({ event }) => event.event === name)
      .map(({ event }) => event.message_id);

  it('drops what one redrove that was killed before it could', async () => {
    await giveUp([['route', entryOf(TOPIC.accepted, 'Done', 1_000_000)]]);
    const { last } = await readDeadLetters(log);
    const run = await log.run({
      kind: 'batch',
      name: REDRIVE,
      reads: [{ topic: TOPIC.poison }],
      writes: [],
      maxEntries: 1,
      process: async () => [],
    });
    await eventually(taken, (passed) => passed > 0);
    await run.stop();
    const kept = async () => {
      const partitions = [...last.keys()];
      const left = await Promise.all(
        partitions.map(
          async (partition) =>
            (await log.end(TOPIC.poison, partition)) - (await log.first(TOPIC.poison, partition)),
        ),
      );
      return left.some((records) => records > 0);
    };
    expect(await kept()).toBe(true);
    expect(await ran()).toMatchObject({ code: 0, output: 'stages.dead holds nothing\n' });
    expect(await kept()).toBe(false);
  });

  it('each stage receives its own once, and a second failure is kept for the next time', async () => {
    const judged = entryOf('events.production', 'Judged', 1_000_001);
    const routed = entryOf(TOPIC.accepted, 'Routed', 1_000_002);
    const uncounted = countOf('Uncounted', 1_000_000);
    const unreadable = { ...entryOf(TOPIC.deliveries, 'Unreadable', 1_000_003), value: '{}' };
    await giveUp([
      ['validate', judged],
      ['route', routed],
      ['funnel', uncounted],
      ['deliver', unreadable],
    ]);
    const listed = await ran('--list');
    expect(listed.code, listed.log).toBe(0);
    expect(listed.output).toContain('stages.dead holds 4 records\n');
    expect(listed.output).toMatch(/^ {2}route +1 {2}\S+ - \S+ {2}the last: no total of undefined$/m);

    const first = await ran();
    expect(first.output, first.log).toContain('3 redriven, 1 failed again, 0 left\n  deliver: ');
    expect(first.code).toBe(1);
    await eventually(
      () => counted('Judged'),
      (count) => count === 1,
    );
    await eventually(
      () => [...received('Judged'), ...received('Routed')],
      (got) => [judged, routed].every((entry) => got.includes(messageOf(entry))),
    );
    await eventually(
      () => counted('Uncounted'),
      (count) => count === 1,
    );

    const second = await ran('--stages', 'validate,route');
    expect(second.output, second.log).toContain('stages.dead holds 1 record\n');
    expect(second.output).toContain('0 redriven, 0 failed again, 1 left\n');
    expect(second.code).toBe(0);
    expect((await ran('--list')).output).toContain('  deliver               1  ');
    expect([await counted('Judged'), await counted('Routed'), await counted('Uncounted')]).toEqual([1, 0, 1]);
    expect([received('Judged').length, received('Routed').length]).toEqual([1, 1]);
  });

  it('states the fault of its command line', async () => {
    const run = await ran('--stages', 'validate,redrive');
    expect(run.code).toBe(2);
    expect(run.log).toContain('--stages: there is no "redrive"; there are validate, validate.slow, funnel');
  });

  it('whenever it is killed, each record has its effect once', async () => {
    const [records, kills] = [4_000, 8];
    const seed = randomInt(2 ** 31);
    const dice = new Dice(seed);
    const entries = Array.from({ length: records }, (_, n) =>
      entryOf('events.production', 'Killed', 2_000_000 + n),
    );
    const uncounted = Array.from({ length: records / 4 }, (_, n) => countOf('Counted', 3_000_000 + n));
    await giveUp(
      entries.flatMap((entry, n): readonly (readonly [string, LogEntry])[] => {
        const other = n % 4 === 0 ? uncounted[n / 4] : undefined;
        return other === undefined
          ? [['validate', entry]]
          : [
              ['validate', entry],
              ['funnel', other],
            ];
      }),
    );
    let killed = 0;
    for (; killed < kills; killed++) {
      const before = await taken();
      const run = command();
      await eventually(taken, (now) => now > before);
      await sleep(dice.between(0, 700));
      await run.kill();
    }
    const began = performance.now();
    const last = await ran();
    const seconds = ((performance.now() - began) / 1_000).toFixed(1);
    console.log(
      `${records} events and ${uncounted.length} counts, ${killed} kills (seed ${seed}), the rest in ${seconds} s:`,
    );
    console.log(last.output.trim());
    await eventually(
      () => new Set(received('Killed')).size,
      (size) => size === records,
    );
    await eventually(
      () => counted('Killed'),
      (count) => count >= records,
    );
    expect(await counted('Killed')).toBe(records);
    await eventually(
      () => counted('Counted'),
      (count) => count === uncounted.length,
    );
    expect(received('Killed').length).toBe(records);
  }, 600_000);
});
