// Runs alone: it requires four processes to react within a second.
import { setTimeout as sleep } from 'node:timers/promises';
import { HEADER, type LogEntry, TOPIC } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Client, eventually } from '../../helpers/client.ts';
import { adminOf, clusterEnvironment, openWorkspace, readyAt } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { entriesOf } from '../../helpers/log-of.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { scrape } from '../../helpers/running-tributary.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

/** The longest time for a change of a contract to take effect on every event, ms. */
const ACTS_WITHIN_MS = 1_000;
/** Enough people for both partitions. */
const PEOPLE = 12;

describe.skipIf(engines() === undefined)('two gateways and two processors, each a process', () => {
  const prefix = freshPrefix();
  const processes: ServerProcess[] = [];
  const environment: Record<string, string> = {};
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let [here, there] = [new Client('', ''), new Client('', '')];
  let processors: readonly string[] = [];

  beforeAll(async () => {
    folder = await temporaryFolder();
    Object.assign(environment, clusterEnvironment(prefix), { TRIBUTARY_DATA_DIR: folder.path });
    const validate = ['processor', '--stages', 'validate'];
    for (const command of [['gateway'], ['gateway'], validate, validate])
      processes.push(new ServerProcess(command, environment));
    const [first = '', second = ''] = await Promise.all(processes.map(readyAt));
    processors = await Promise.all(processes.slice(2).map(adminOf));
    const { owner, producer } = await openWorkspace(first, folder.path, 'Two');
    here = owner;
    there = producer.at(second);
  });
  afterAll(async () => {
    await Promise.all(processes.map((one) => one.stop()));
    await removePrefix(prefix);
    await folder.remove();
  });

  const terms = (type: string) => ({
    name: 'Paid',
    event_type: 'track',
    event_name: 'Paid',
    schema_definition: { properties: { amount: { type } } },
  });
  const validated = async (adminUrl: string) => {
    const text = await scrape(adminUrl);
    return [...text.matchAll(/^tributary_events_validated_total\S* (\d+)$/gm)].reduce(
      (sum, [, count]) => sum + Number(count),
      0,
    );
  };
  const send = (message_id: string, user_id: string) =>
    there.call('POST', './events/track', {
      body: { event: 'Paid', message_id, user_id, properties: { amount: 1 } },
    });

  it('a change of a contract at one gateway applies to events at the other within a second, on both processors, and each event states which version it was evaluated by', async () => {
    const { id } = await here.post<{ id: string }>('./event-contracts', terms('number'));
    // Both processors have partitions, and the other gateway has folded the contract.
    await eventually(
      async () => {
        for (let n = 0; n < PEOPLE; n++) await send(`warm-up ${Math.random()}`, `u${n}`);
        return Promise.all(processors.map(validated));
      },
      (counts) => counts.every((count) => count > 0),
      30_000,
    );
    const sentAt = new Map<string, number>();
    let sending = true;
    const producer = (async () => {
      for (let n = 0; sending; n++) {
        const messageId = `m${n}`;
        sentAt.set(messageId, performance.now());
        expect((await send(messageId, `u${n % PEOPLE}`)).status).toBe(202);
      }
    })();
    await expect.poll(() => sentAt.size).toBeGreaterThan(2 * PEOPLE);
    await here.put(`./event-contracts/${id}`, terms('string'));
    const changedAt = performance.now();
    await sleep(ACTS_WITHIN_MS + 500);
    sending = false;
    await producer;

    const isSent = (entry: LogEntry) => sentAt.has(entry.headers[HEADER.messageId] ?? '');
    const judged = await eventually(
      async () => (await entriesOf({ environment }, TOPIC.accepted)).filter(isSent),
      (entries) => entries.length === sentAt.size,
    );
    const versionsOf = (entries: readonly LogEntry[]) =>
      entries.map(({ headers }) => Number(headers[HEADER.contractVersion]));
    const late = judged.filter(
      ({ headers }) => (sentAt.get(headers[HEADER.messageId] ?? '') ?? 0) > changedAt + ACTS_WITHIN_MS,
    );
    expect(new Set(versionsOf(late))).toEqual(new Set([2]));
    const partitions = [...Map.groupBy(judged, ({ position }) => position.partition).values()];
    expect(partitions).toHaveLength(2);
    for (const entries of partitions) {
      const versions = versionsOf(entries);
      expect(versions).toEqual(versions.toSorted((a, b) => a - b));
      expect(new Set(versions)).toEqual(new Set([1, 2]));
    }
    // The version depends only on the catalog position that the event carries, so every replay gets the same
    // one.
    const positions = (version: number) =>
      judged
        .filter(({ headers }) => headers[HEADER.contractVersion] === String(version))
        .map(({ headers }) => Number(headers[HEADER.catalogPosition]));
    expect(Math.max(...positions(1))).toBeLessThan(Math.min(...positions(2)));
    for (const { headers } of judged) {
      expect(headers[HEADER.contractId]).toBe(id);
      expect(headers[HEADER.outcome]).toBe(headers[HEADER.contractVersion] === '1' ? 'accepted' : 'warned');
    }
  }, 90_000);
});
