import {
  type Catalog,
  type CatalogView,
  type Clock,
  type Destination,
  iso,
  isSealed,
  type JsonObject,
  type KeyRing,
  newId,
  seal,
  TributaryError,
  unseal,
} from '@tributary/core';
import { type Environment, readConfig } from '../runtime/config/config.ts';
import { addKeyToFile, hasKeyFile, readKeyRing } from '../runtime/wiring/secrets.ts';
import { openLogAndCatalog, runCommand } from './command.ts';

/**
 * `tributary secrets rotate`: reseals every secret of the catalog under the first key while other processes
 * run, and prints how many secrets are still sealed under the other keys. If the keys are in a file of the
 * data folder, adds a new first key, unless an earlier incomplete run already did.
 */
export async function rotateAllSecrets(environment: Environment): Promise<number> {
  const config = readConfig({ LOG_LEVEL: 'warn', ...environment });
  const keys = { ...config, devIssuer: config.devIssuer || hasKeyFile(config.dataFolder) };
  return runCommand('secrets', config, async (tools) => {
    const [first] = readKeyRing(keys).keys(); // reports faults of the keys before anything is opened
    const { catalog } = await openLogAndCatalog(tools);
    if (keys.secretKeys === '') {
      const isUnfinished = [...secretsByKey(catalog.state).keys()].some((kid) => kid !== first);
      if (!isUnfinished) addKeyToFile(keys.dataFolder);
    }
    const ring = readKeyRing(keys);
    process.stdout.write(describe(await rotateSecrets({ catalog, ring, clock: Date.now }), [...ring.keys()]));
    return 0;
  });
}

/** States which of the old keys may be removed. */
function describe({ resealed, under }: Rotation, kids: readonly string[]): string {
  const [first = '', ...old] = kids;
  const lines = [
    `${resealed} ${resealed === 1 ? 'destination' : 'destinations'} sealed anew under ${first}`,
    ...old.map((kid) => {
      const left = under.get(kid) ?? 0;
      return left === 0
        ? `${kid}: nothing is sealed under it; it may go once every process has ${first} first and this was run again`
        : `${kid}: ${left} sealed under it by processes that do not have ${first} first yet; run this again`;
    }),
    ...(old.length === 0 ? [`${first} is the only key: put a new one before it to rotate`] : []),
  ];
  return `${lines.join('\n')}\n`;
}

/** A secret that no key opens. Nothing was changed. */
class SecretsUnreadable extends TributaryError {
  readonly code = 'secrets_unreadable';
  readonly retryable = false;
}

interface Rotation {
  /** Number of destinations with secrets sealed again under the first key. */
  readonly resealed: number;
  /** Number of secrets sealed under each key, unknown keys included. */
  readonly under: ReadonlyMap<string, number>;
}

interface RotationTools {
  readonly catalog: Catalog;
  readonly ring: KeyRing;
  readonly clock: Clock;
}

const CATCH_UP_MS = 30_000;
/** Attempts for one destination. An attempt conflicts only if the destination was changed meanwhile. */
const MAX_TRIES = 100;

/**
 * Seals every secret of the catalog under the first key of the ring, by facts for the version that they were made from: a
 * concurrent edit is kept, and its secrets are sealed again. May be repeated at any time, also after being killed. Before
 * the first fact every secret is opened: `SecretsUnreadable` lists the destinations whose secrets no key opens.
 */
async function rotateSecrets({ catalog, ring, clock }: RotationTools): Promise<Rotation> {
  await catalog.catchUp(CATCH_UP_MS);
  const all = destinationsOf(catalog.state);
  const faults = all.flatMap((destination) => faultsOf(ring, destination));
  if (faults.length > 0)
    throw new SecretsUnreadable(
      `nothing was changed, as some secrets open with no key:\n${faults.join('\n')}`,
    );
  let resealed = 0;
  for (const { workspace_id, id } of all) {
    if (await resealOne({ catalog, ring, clock }, workspace_id, id)) resealed++;
  }
  await catalog.catchUp(CATCH_UP_MS);
  return { resealed, under: secretsByKey(catalog.state) };
}

/** The number of secrets sealed under each key. */
function secretsByKey(state: CatalogView): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const destination of destinationsOf(state))
    for (const kid of kidsOf(destination)) counts.set(kid, (counts.get(kid) ?? 0) + 1);
  return counts;
}

function destinationsOf(state: CatalogView): readonly Destination[] {
  return [...state.workspaceIds()].flatMap((id) => state.entities('destination', id));
}

function kidsOf({ settings }: Destination): readonly string[] {
  return Object.values(settings).flatMap((value) =>
    isSealed(value) ? [value.$sealed.split('.', 1)[0] ?? ''] : [],
  );
}

function faultsOf(ring: KeyRing, { id, workspace_id, name, settings }: Destination): readonly string[] {
  return Object.entries(settings).flatMap(([setting, value]) => {
    const opened = isSealed(value)
      ? unseal(ring, { destinationId: id, path: `/${setting}` }, value)
      : undefined;
    return opened === undefined || opened.ok
      ? []
      : [`  destination ${id} ("${name}") of workspace ${workspace_id}: ${setting}: ${opened.fault}`];
  });
}

/** False if no secret was under another key, or the destination does not exist any more. */
async function resealOne(
  { catalog, ring, clock }: RotationTools,
  workspaceId: string,
  id: string,
): Promise<boolean> {
  const [first] = ring.keys();
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const stored = catalog.state.entity('destination', workspaceId, id);
    if (stored === undefined || kidsOf(stored).every((kid) => kid === first)) return false;
    const faults = faultsOf(ring, stored);
    if (faults.length > 0) throw new SecretsUnreadable(`a secret opens with no key:\n${faults.join('\n')}`);
    const verdict = await catalog.propose({
      v: 1,
      type: 'destination.updated',
      entity: id,
      expected_version: stored.version,
      data: { settings: resealed(ring, id, stored.settings) },
      by: 'operator:secrets',
      from: { address: '', request_id: newId() },
      at: iso(clock()),
    });
    if (verdict.applied) return true;
  }
  throw new SecretsUnreadable(`destination ${id} is changed all the time: run it again`);
}

function resealed(ring: KeyRing, destinationId: string, settings: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(settings).map(([name, value]) => {
      const location = { destinationId, path: `/${name}` };
      const opened = isSealed(value) ? unseal(ring, location, value) : undefined;
      return [name, opened?.ok ? { ...seal(ring, location, opened.value) } : value];
    }),
  );
}
