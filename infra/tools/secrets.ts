import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Catalog,
  type CatalogSource,
  type CatalogView,
  type Clock,
  type Destination,
  type FactData,
  isClaimed,
  iso,
  isSealed,
  type KeyRing,
  newId,
  type Sealed,
  type SecretLocation,
  seal,
  TributaryError,
  unseal,
} from '@tributary/core';
import { type Environment, readConfig } from '../runtime/config/config.ts';
import {
  addKeyToFile,
  hasKeyFile,
  readKeyRing,
  settingOf,
  tokensOf,
  webhookSecretOf,
} from '../runtime/wiring/secrets.ts';
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
function describe(
  { resealed, under }: Awaited<ReturnType<typeof rotateSecrets>>,
  kids: readonly string[],
): string {
  const [first = '', ...old] = kids;
  const lines = [
    ...HOLDERS.flatMap((kind) => {
      const count = resealed[kind];
      if (count === 0 && kind === 'source') return [];
      return [`${count} ${kind}${count === 1 ? '' : 's'} sealed anew under ${first}`];
    }),
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

/** The kinds of entities that have secrets. */
const HOLDERS = ['destination', 'source'] as const satisfies readonly SecretLocation['kind'][];

interface RotationTools {
  readonly catalog: Catalog;
  readonly ring: KeyRing;
  readonly clock: Clock;
}

/** An entity with secrets, or the tokens of a destination's connection. */
interface Holder {
  readonly kind: SecretLocation['kind'];
  readonly entity: Destination | CatalogSource;
  /** The version that a change of the secrets is for. */
  readonly version: number;
  /** A process may be about to store others: they are left alone until it has. */
  readonly isClaimed?: boolean;
  /** The same secrets as they are now; undefined where they are gone. */
  again(state: CatalogView): Holder | undefined;
  readonly secrets: readonly { readonly location: SecretLocation; readonly sealed: Sealed }[];
  /** The change of the entity that replaces its secrets. */
  change(replace: (location: SecretLocation, sealed: Sealed) => Sealed): SecretsChange;
}

type SecretsChange = {
  readonly [T in 'destination.updated' | 'connection.refreshed' | 'source.updated']: {
    readonly type: T;
    readonly data: FactData[T];
  };
}['destination.updated' | 'connection.refreshed' | 'source.updated'];

const CATCH_UP_MS = 30_000;
/** Attempts for one entity. An attempt conflicts only if the entity was changed meanwhile. */
const MAX_TRIES = 100;
/** Between attempts for tokens that a process has claimed, ms: all of them are longer than a claim. */
const CLAIMED_WAIT_MS = 1_500;

/**
 * Seals every secret of the catalog under the first key of the ring, by facts for the version that they were made from: a
 * concurrent edit is kept, and its secrets are sealed again. May be repeated at any time, also after being killed. Before
 * the first fact every secret is opened: `SecretsUnreadable` lists the entities whose secrets no key opens.
 */
async function rotateSecrets({ catalog, ring, clock }: RotationTools) {
  await catalog.catchUp(CATCH_UP_MS);
  const all = holdersOf(catalog.state);
  const faults = all.flatMap((holder) => faultsOf(ring, holder));
  if (faults.length > 0)
    throw new SecretsUnreadable(
      `nothing was changed, as some secrets open with no key:\n${faults.join('\n')}`,
    );
  const resealed = { destination: new Set<string>(), source: new Set<string>() };
  for (const holder of all)
    if (await resealOne({ catalog, ring, clock }, holder)) resealed[holder.kind].add(holder.entity.id);
  await catalog.catchUp(CATCH_UP_MS);
  const { destination, source } = resealed;
  return {
    resealed: { destination: destination.size, source: source.size },
    under: secretsByKey(catalog.state),
  };
}

/** The number of secrets sealed under each key, unknown keys included. */
function secretsByKey(state: CatalogView): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const holder of holdersOf(state))
    for (const kid of kidsOf(holder)) counts.set(kid, (counts.get(kid) ?? 0) + 1);
  return counts;
}

function holdersOf(state: CatalogView): readonly Holder[] {
  return [...state.workspaceIds()].flatMap((id) => [
    ...state.entities('destination', id).map(destinationHolder),
    ...state.entities('destination', id).flatMap(connectionHolder),
    ...state.entities('source', id).map(sourceHolder),
  ]);
}

function destinationHolder(destination: Destination): Holder {
  const settings = Object.entries(destination.settings);
  const locationOf = (name: string) => settingOf(destination.id, name);
  return {
    kind: 'destination',
    entity: destination,
    version: destination.version,
    again(state) {
      const now = state.destination(destination.id);
      return now && destinationHolder(now);
    },
    secrets: settings.flatMap(([name, value]) =>
      isSealed(value) ? [{ location: locationOf(name), sealed: value }] : [],
    ),
    change: (replace) => ({
      type: 'destination.updated',
      data: {
        settings: Object.fromEntries(
          settings.map(([name, value]) => [
            name,
            isSealed(value) ? { ...replace(locationOf(name), value) } : value,
          ]),
        ),
      },
    }),
  };
}

/** Tokens change beside the settings, and a refresh must not be overwritten: a change is for the number of changes before. */
function connectionHolder(destination: Destination): readonly Holder[] {
  const { id, connection } = destination;
  if (connection?.tokens === undefined) return [];
  const { tokens, turns, settings = {}, renewed_at } = connection;
  const location = tokensOf(id);
  return [
    {
      kind: 'destination',
      entity: destination,
      version: turns,
      isClaimed: isClaimed(connection, Date.now()),
      again(state) {
        const now = state.destination(id);
        return now && connectionHolder(now)[0];
      },
      secrets: [{ location, sealed: tokens }],
      change: (replace) => ({
        type: 'connection.refreshed',
        data: {
          tokens: replace(location, tokens),
          settings,
          ...(renewed_at !== undefined && { renewed: true as const }),
        },
      }),
    },
  ];
}

function sourceHolder(source: CatalogSource): Holder {
  const { webhook = null } = source;
  const location = webhookSecretOf(source.id);
  return {
    kind: 'source',
    entity: source,
    version: source.version,
    again(state) {
      const now = state.entity('source', source.workspace_id, source.id);
      return now && sourceHolder(now);
    },
    secrets: (webhook?.secrets ?? []).map((sealed) => ({ location, sealed })),
    change: (replace) => ({
      type: 'source.updated',
      data: {
        webhook: webhook && {
          ...webhook,
          secrets: webhook.secrets.map((sealed) => replace(location, sealed)),
        },
      },
    }),
  };
}

function kidsOf({ secrets }: Holder): readonly string[] {
  return secrets.map(({ sealed }) => sealed.$sealed.split('.', 1)[0] ?? '');
}

function faultsOf(
  ring: KeyRing,
  { kind, entity: { id, workspace_id, name }, secrets }: Holder,
): readonly string[] {
  return secrets.flatMap(({ location, sealed }) => {
    const opened = unseal(ring, location, sealed);
    return opened.ok
      ? []
      : [
          `  ${kind} ${id} ("${name}") of workspace ${workspace_id}: ${location.path.slice(1)}: ${opened.fault}`,
        ];
  });
}

/** False if no secret was under another key, or the entity does not exist any more. */
async function resealOne({ catalog, ring, clock }: RotationTools, holder: Holder): Promise<boolean> {
  const [first] = ring.keys();
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const stored = holder.again(catalog.state);
    if (stored === undefined || kidsOf(stored).every((kid) => kid === first)) return false;
    if (stored.isClaimed === true) {
      await sleep(CLAIMED_WAIT_MS);
      continue;
    }
    const faults = faultsOf(ring, stored);
    if (faults.length > 0) throw new SecretsUnreadable(`a secret opens with no key:\n${faults.join('\n')}`);
    const verdict = await catalog.propose({
      ...stored.change((location, sealed) => resealed(ring, location, sealed)),
      v: 1,
      entity: stored.entity.id,
      expected_version: stored.version,
      by: 'operator:secrets',
      from: { address: '', request_id: newId() },
      at: iso(clock()),
    });
    if (verdict.applied) return true;
  }
  throw new SecretsUnreadable(`${holder.kind} ${holder.entity.id} is changed all the time: run it again`);
}

function resealed(ring: KeyRing, location: SecretLocation, sealed: Sealed): Sealed {
  const opened = unseal(ring, location, sealed);
  return opened.ok ? seal(ring, location, opened.value) : sealed;
}
