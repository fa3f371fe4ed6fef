import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Catalog, declareTopics, isSealed, NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openLogCatalog, openSecrets, openSqliteEventLog, readConfig } from '@tributary/infra';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Dice } from '../../chaos/dice.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { ServerProcess } from '../../helpers/server-process.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

const DESTINATIONS = 12;
const TOKENS = { access: 'access-1', refresh: 'refresh-1' };
const WEBHOOK_SECRETS = ['the new one', 'the one before'];
const KILLS = process.env.TRIBUTARY_TEST_LONG ? 20 : 2;
/**
 * The run time of a rotation before it is killed, ms: from before it reads the catalog until after its end.
 */
const KILLED_AFTER = [400, 1_900] as const;

const UNHINDERED = { TRIBUTARY_CHANGE_RATE: '1000', TRIBUTARY_CHANGE_RATE_PER_ACCOUNT: '1000' };

interface Made {
  readonly id: string;
  readonly headers: string;
}

describe('tributary secrets rotate', () => {
  let tributary: Tributary;
  let made: readonly Made[];
  let sourceId: string;
  beforeAll(async () => {
    // People edit without a pause all the time that the rotations take.
    tributary = await startTributary({ env: UNHINDERED });
    const webhook = { kind: 'github', secrets: WEBHOOK_SECRETS };
    const source = { name: 'GitHub', type: 'github', webhook };
    sourceId = (await tributary.owner.post<{ id: string }>('./sources', source)).id;
  });
  beforeEach(async () => {
    const all: Made[] = [];
    for (let n = 0; n < DESTINATIONS; n++) {
      const headers = { authorization: `token ${n}` };
      const settings = { url: `https://example.com/${n}`, headers };
      const body = { name: `d${n}`, type: 'webhook', settings, enabled: true };
      const { id } = await tributary.owner.post<{ id: string }>('./destinations', body);
      all.push({ id, headers: JSON.stringify(headers) });
    }
    made = all;
    await withCatalog(async (catalog, secrets) => {
      const [first = { id: '' }] = made;
      const data = { tokens: secrets.sealTokens(first.id, TOKENS), settings: {} };
      const origin = { by: 'a1', from: { address: '', request_id: '' }, at: '2026-01-01T00:00:00.000Z' };
      await catalog.propose({ v: 1, type: 'destination.connected', entity: first.id, data, ...origin });
    });
  });
  afterAll(() => tributary.remove());

  const command = () => new ServerProcess(['secrets', 'rotate'], { TRIBUTARY_DATA_DIR: tributary.folder });
  const runHere = (words: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    ranHere(words, { TRIBUTARY_DATA_DIR: tributary.folder, ...env });

  async function rotated(): Promise<string> {
    const run = await runHere(['secrets', 'rotate']);
    expect(run.code, run.log).toBe(0);
    return run.output;
  }

  async function withCatalog<T>(
    work: (catalog: Catalog, secrets: ReturnType<typeof openSecrets>) => Promise<T>,
  ): Promise<T> {
    const topics = declareTopics({ partitions: 4, retentionMs: 3_600_000, retrySteps: [], dedicated: [] });
    const folder = `${tributary.folder}/log`;
    const log = await openSqliteEventLog({
      folder,
      topics,
      logger: NO_LOGGER,
      metrics: NO_METRICS,
      retentionEveryMs: false,
    });
    const catalog = openLogCatalog({ log, logger: NO_LOGGER });
    await catalog.catchUp(10_000);
    const secrets = openSecrets(
      readConfig({ TRIBUTARY_DATA_DIR: tributary.folder, TRIBUTARY_DEV_ISSUER: '1' }),
    );
    try {
      return await work(catalog, secrets);
    } finally {
      await catalog.close();
      await log.close();
    }
  }

  /** The catalog now: the keys in use, and each destination opened with the key ring of the folder. */
  const look = () =>
    withCatalog(async (catalog, secrets) => {
      const found = made.map(({ id }) => catalog.state.destination(id));
      const source = catalog.state.entity('source', tributary.workspaceId, sourceId);
      const all = [
        ...found.flatMap((each) => [...Object.values(each?.settings ?? {}), each?.connection?.tokens]),
        ...(source?.webhook?.secrets ?? []),
      ];
      const kids = new Set(all.flatMap((value) => (isSealed(value) ? [value.$sealed.split('.')[0]] : [])));
      const webhookSecrets = source && secrets.webhookSecrets(source);
      const opened = found.map((each) => each && secrets.unseal(each).settings);
      const names = found.map((each) => each?.name);
      const [first] = found;
      const tokens = first && secrets.openTokens(first);
      return { kids: [...kids], opened, names, webhookSecrets, tokens };
    });

  it('seals every secret under a new key beside a running server, which continues with it', async () => {
    const before = await look();
    expect(before.kids).toEqual(['local']);
    const run = command();
    expect(await run.ended(), run.log).toBe(0);
    const { output } = run;
    expect(output).toMatch(new RegExp(`^${DESTINATIONS} destinations sealed anew under local-[0-9a-f]{8}\n`));
    expect(output).toContain('local: nothing is sealed under it; it may go');
    const after = await look();
    expect(after.kids).toHaveLength(1);
    expect(after.kids).not.toEqual(before.kids);
    expect(after.opened).toEqual(before.opened);
    expect(output).toContain('1 source sealed anew under local-');
    expect(after.webhookSecrets).toEqual(WEBHOOK_SECRETS);
    expect(after.tokens).toEqual(TOKENS);
    expect(after.opened.map((settings) => JSON.stringify(settings?.headers))).toEqual(
      made.map(({ headers }) => headers),
    );

    // The server that ran all the time seals under the new key too.
    const body = { name: 'later', type: 'webhook', settings: { url: 'https://example.com' }, enabled: true };
    const { id } = await tributary.owner.post<{ id: string }>('./destinations', body);
    made = [{ id, headers: '' }];
    expect((await look()).kids).toEqual(after.kids);
  });

  it('can be killed at any moment beside concurrent changes, and run again until it is complete', async () => {
    const { opened } = await look();
    let editing = true;
    const edits = (async () => {
      for (let n = 0; editing; n++) {
        const one = made[n % made.length];
        const path = `./destinations/${one?.id}`;
        const stored = await tributary.owner.get<{ type: string; settings: { url: string } }>(path);
        const body = { name: `edited ${n}`, type: stored.type, settings: stored.settings, enabled: true };
        const { status } = await tributary.owner.call('PUT', path, body);
        // A concurrent rotation is a conflict, as any other change would be.
        expect([200, 409]).toContain(status);
      }
    })();
    const seed = randomInt(2 ** 31);
    const dice = new Dice(seed);
    console.log(`the times of the kills are of seed ${seed}`);
    for (let kill = 0; kill < KILLS; kill++) {
      const run = command();
      await sleep(dice.between(...KILLED_AFTER));
      await run.kill();
    }
    await rotated();
    editing = false;
    await edits;
    const last = await rotated();
    expect(last).toMatch(/^\d+ destinations? sealed anew under /);
    const after = await look();
    expect(after.kids).toHaveLength(1);
    expect(after.opened).toEqual(opened);
    expect(after.names.some((name) => name?.startsWith('edited'))).toBe(true);
  });

  it('refuses a secret that no key opens, names the destination and changes nothing', async () => {
    const before = await look();
    const strange = `k9:${Buffer.alloc(32, 7).toString('base64')}`;
    const run = await runHere(['secrets', 'rotate'], { TRIBUTARY_SECRET_KEYS: strange });
    expect(run.code).toBe(1);
    for (const { id } of made) expect(run.log).toContain(`destination ${id} `);
    expect(run.log).toContain(`source ${sourceId} `);
    expect(run.log).toContain('unknown_key');
    expect(run.log).not.toContain(strange.slice(3, 12));
    expect((await look()).kids).toEqual(before.kids);
  });
});
