import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Environment, NO_LOGGER, NO_METRICS, newId } from '@tributary/core';
import { gateway } from '@tributary/gateway';
import { createServer } from '@tributary/gateway/server';
import { openDevIssuer, openGateway, readConfig } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Client } from '../../helpers/client.ts';
import { clusterEnvironment } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { inProcess } from '../../helpers/gateway.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';

interface Key {
  readonly id: string;
  readonly key: string;
}

interface Wiring {
  readonly name: string;
  environment(): Readonly<Record<string, string>>;
  remove(environment: Readonly<Record<string, string>>): Promise<void>;
}

/** Two gateways of one folder share only the files of its log; only this process runs both. */
const embedded: Wiring = {
  name: 'the embedded wiring',
  environment: () => ({ TRIBUTARY_DEV_ISSUER: '1' }),
  remove: async () => {},
};

const distributed: Wiring = {
  name: 'Kafka and Redis',
  environment: () => clusterEnvironment(freshPrefix()),
  remove: ({ TRIBUTARY_PREFIX: prefix = '' }) => removePrefix(prefix),
};

/** Refusals in a row that count as final; few enough that the address does not count as guessing keys. */
const REFUSALS = 20;

/** The longest time after the answer to a revocation in which another gateway may accept the key, ms. */
const WITHIN_MS = 1_000;

describe.each([embedded, distributed])(
  'a key that one gateway revoked, on $name',
  ({ name, environment, remove }) => {
    const missing = name === distributed.name && engines() === undefined;

    it.skipIf(missing)(
      'is refused by another gateway within a second and permanently, and by one that starts later',
      async () => {
        const folder = await mkdtemp(join(tmpdir(), 'tributary-revocation-'));
        const chosen = environment();
        onTestFinished(async () => {
          await remove(chosen);
          await rm(folder, { recursive: true, force: true });
        });
        const config = readConfig({ ...chosen, TRIBUTARY_DATA_DIR: folder });
        const issuer = openDevIssuer(config);
        const start = async () => {
          const opened = await openGateway(config, [issuer.trusted], {
            logger: NO_LOGGER,
            metrics: NO_METRICS,
          });
          await opened.dependencies.log.createTopics();
          await opened.dependencies.catalog.catchUp(20_000);
          const app = createServer();
          await app.register(gateway, opened.dependencies);
          onTestFinished(async () => {
            await app.close();
            await opened.close();
          });
          return app;
        };
        const [one, other] = [await start(), await start()];
        const person = new Client(inProcess(one), await issuer.mint('owner@example.com'));
        const { id: workspaceId } = await person.ok<{ id: string }>('POST', '/workspaces', { name: 'Two' });
        const owner = person.with({ workspaceId });

        for (const environmentOfKey of ['api', 'production', 'development'] as const) {
          const { key, path } = await make(owner, environmentOfKey);
          const holder = new Client(inProcess(other), key, workspaceId);
          const ask = () => use(holder, environmentOfKey);
          expect(await ask()).toBeLessThan(300);

          let revokedAt = Number.POSITIVE_INFINITY;
          const revoking = owner.ok('DELETE', path).then(() => {
            revokedAt = performance.now();
          });
          let lastTaken = Number.NEGATIVE_INFINITY;
          let refusals = 0;
          for (let asked = 0; refusals < REFUSALS && performance.now() < revokedAt + 5 * WITHIN_MS; asked++) {
            const at = performance.now();
            if ((await ask()) < 300) [lastTaken, refusals] = [at, 0];
            else refusals++;
            if (asked % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
          }
          await revoking;
          const late = Math.max(0, lastTaken - revokedAt);
          console.log(
            `${name}: a revoked ${environmentOfKey} key was last taken ${late.toFixed(1)} ms after the answer`,
          );
          expect(refusals).toBe(REFUSALS);
          expect(late).toBeLessThan(WITHIN_MS);
          expect(await use(new Client(inProcess(one), key, workspaceId), environmentOfKey)).toBe(401);
          const later = await start();
          expect(await use(new Client(inProcess(later), key, workspaceId), environmentOfKey)).toBe(401);
        }
      },
    );
  },
);

async function make(owner: Client, kind: 'api' | Environment): Promise<{ key: string; path: string }> {
  const list = kind === 'api' ? './api-keys' : './event-keys';
  const body = kind === 'api' ? { name: 'k' } : { name: 'k', environment: kind };
  const { id, key } = await owner.ok<Key>('POST', list, body);
  return { key, path: `${list}/${id}` };
}

/** The status of a call that uses the key. */
async function use(holder: Client, kind: 'api' | Environment): Promise<number> {
  if (kind === 'api') return (await holder.call('GET', './sources')).status;
  return (await holder.call('POST', './events/track', { event: 'E', user_id: 'u', message_id: newId() }))
    .status;
}
