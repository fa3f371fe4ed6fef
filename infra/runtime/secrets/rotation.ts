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

/** A secret that no key opens: nothing was sealed anew. */
export class SecretsUnreadable extends TributaryError {
  readonly code = 'secrets_unreadable';
  readonly retryable = false;
}

export interface Rotation {
  /** Destinations whose secrets were sealed anew under the first key. */
  readonly resealed: number;
  /** How many secrets are sealed under each key, those that are not known too. */
  readonly under: ReadonlyMap<string, number>;
}

export interface RotationTools {
  readonly catalog: Catalog;
  readonly ring: KeyRing;
  readonly clock: Clock;
}

const CATCH_UP_MS = 30_000;
/** Attempts for one destination: each conflicts only where the destination was changed meanwhile. */
const MAX_TRIES = 100;

/**
 * Seals every secret of the catalog under the first key of the ring, by facts like everybody's, each for the version it
 * was made from: an edit that came between is kept and the secret of that edit sealed anew. Safe to run again at any
 * time, also after being killed. Before the first fact every secret is opened: `SecretsUnreadable` names the
 * destinations of those that no key opens.
 */
export async function rotateSecrets({ catalog, ring, clock }: RotationTools): Promise<Rotation> {
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

/** How many secrets are sealed under each key. */
export function secretsByKey(state: CatalogView): ReadonlyMap<string, number> {
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

/** True when it was sealed anew; false where nothing of it was under another key, or it is gone. */
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
      const place = { destinationId, path: `/${name}` };
      const opened = isSealed(value) ? unseal(ring, place, value) : undefined;
      return [name, opened?.ok ? { ...seal(ring, place, opened.value) } : value];
    }),
  );
}
