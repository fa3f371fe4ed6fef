import { afterAll, expect, test } from 'vitest';
import { DEFINITIONS } from './connector.ts';
import { define, foldersOfPack, offerOf } from './definitions.fixture.ts';
import type { Definition } from './definitions.ts';
import { detailsIn } from './details.ts';
import { hostsOf } from './host-patterns.fixture.ts';
import { idsDeletedBy, recordFetch } from './pack-runs.fixture.ts';
import { describePack } from './reference.fixture.ts';

// `TRIBUTARY_TEST_LONG=1 npx vitest run connectors/segment/definitions.spec.ts -u` writes them. The default run takes the
// hosts as they are stored: to find them it runs each destination hundreds of times.
const FINDS_HOSTS = process.env.TRIBUTARY_TEST_LONG !== undefined;
const stored = new Map(DEFINITIONS.map(({ destination, hosts }) => [destination, hosts]));

afterAll(recordFetch());

test('definitions.json and its reference match the pack', async () => {
  const definitions: Definition[] = [];
  const rest = [];
  for (const destination of foldersOfPack()) {
    const offer = offerOf(destination);
    if (!offer.offered) {
      rest.push(offer);
      continue;
    }
    const details = detailsIn(offer.definition);
    const described = define(offer, [], []);
    const hosts = FINDS_HOSTS
      ? await hostsOf(destination, offer.code, offer.definition, described, details)
      : (stored.get(destination) ?? []);
    definitions.push(define(offer, hosts, await idsDeletedBy(described, offer.definition)));
  }
  const lines = definitions.map((definition) => JSON.stringify(definition));
  await expect(`[\n${lines.join(',\n')}\n]\n`).toMatchFileSnapshot('./definitions.json');
  await expect(describePack(definitions, rest)).toMatchFileSnapshot(
    '../../docs/reference/segment-destinations.md',
  );
  // At least so many can be used without further settings.
  expect(definitions.filter(({ needs }) => needs === undefined).length).toBeGreaterThanOrEqual(170);
}, 300_000);
